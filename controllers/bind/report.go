package bind

import (
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// announced are the last events of objects, so that no event is repeated. Keys without a namespace are
// volumes. The zero value is empty.
type announced struct {
	mu   sync.Mutex
	last map[api.Key]lastEvent
}

type lastEvent struct {
	uid  types.UID
	text string
}

// isNews records the event of an object, and reports whether it differs from the last one.
func (a *announced) isNews(key api.Key, event lastEvent) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last[key] == event {
		return false
	}
	if a.last == nil {
		a.last = map[api.Key]lastEvent{}
	}
	a.last[key] = event
	return true
}

func (a *announced) forget(key api.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, key)
}

// announce sends an event, unless it is the last one of the object.
func (c *Controller) announce(key api.Key, object api.Object, event note) {
	if event == (note{}) || !c.announced.isNews(key, lastEvent{object.GetUID(), event.reason + event.message}) {
		return
	}
	c.config.Events(api.Event{Object: object, Type: event.kind, Reason: event.reason, Message: telemetry.Text(event.message)})
}

// Gauges calls yield for the present value of each gauge of claims and volumes, computed from the caches.
// It is for a metrics collector, which calls it for each request.
func (c *Controller) Gauges(yield func(name string, value int, labels ...manager.Label)) {
	type series struct{ name, one, two, three string }
	counts := map[series]int{}
	for _, pv := range c.volumes.Cache().List() {
		counts[series{TotalVolumes, c.labelOf(pv), string(volumeModeOf(pv.Spec.VolumeMode)), ""}]++
		name := UnboundVolumes
		if pv.Status.Phase == v1.VolumeBound {
			name = BoundVolumes
		}
		counts[series{name, pv.Spec.StorageClassName, "", ""}]++
	}
	for _, claim := range c.claims.Cache().List() {
		name, attributes := UnboundClaims, ""
		if claim.Status.Phase == v1.ClaimBound {
			name = BoundClaims
		}
		if claim.Spec.VolumeAttributesClassName != nil {
			attributes = *claim.Spec.VolumeAttributesClassName
		}
		counts[series{name, claim.Namespace, className(claim), attributes}]++
	}
	for s, count := range counts {
		switch s.name {
		case TotalVolumes:
			yield(s.name, count, manager.Label{Name: "plugin_name", Value: s.one}, manager.Label{Name: "volume_mode", Value: s.two})
		case BoundVolumes, UnboundVolumes:
			yield(s.name, count, manager.Label{Name: "storage_class", Value: s.one})
		default:
			yield(s.name, count, manager.Label{Name: "namespace", Value: s.one}, manager.Label{Name: "storage_class", Value: s.two},
				manager.Label{Name: "volume_attributes_class", Value: s.three})
		}
	}
}

// labelOf returns the label plugin_name of a volume: also the driver of a CSI volume.
func (c *Controller) labelOf(pv *v1.PersistentVolume) string {
	name := c.pluginOf(pv)
	switch {
	case name == "":
		return "N/A"
	case pv.Spec.CSI != nil:
		return name + ":" + pv.Spec.CSI.Driver
	}
	return name
}

// An operationCounter counts the failed calls of a plugin, as kube-controller-manager does, beside the
// metrics of package provision.
type operationCounter struct {
	manager.Metrics
	plugin string
}

func (m operationCounter) Add(name string, count int, labels ...manager.Label) {
	m.Metrics.Add(name, count, labels...)
	operations := map[string]string{provision.ProvisionFailedTotal: "provision", provision.DeleteFailedTotal: "delete"}
	if operation, ok := operations[name]; ok {
		m.Metrics.Add(OperationErrorsTotal, count, operationLabels(m.plugin, operation)...)
	}
}

func operationLabels(plugin, operation string) []manager.Label {
	return []manager.Label{{Name: "plugin_name", Value: plugin}, {Name: "operation_name", Value: operation}}
}
