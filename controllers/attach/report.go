package attach

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/util"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Values of the label operation_name.
const (
	attachOperation = "volume_attach"
	detachOperation = "volume_detach"
)

// announcements are the last events of objects, for each volume, so that no event is repeated. The zero
// value is empty.
type announcements struct {
	mu   sync.Mutex
	last map[types.UID]map[v1.UniqueVolumeName]string
}

// isNews records an event, and reports whether it differs from the last one.
func (a *announcements) isNews(object types.UID, id v1.UniqueVolumeName, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last[object][id] == text {
		return false
	}
	if a.last == nil {
		a.last = map[types.UID]map[v1.UniqueVolumeName]string{}
	}
	if a.last[object] == nil {
		a.last[object] = map[v1.UniqueVolumeName]string{}
	}
	a.last[object][id] = text
	return true
}

func (a *announcements) forget(object types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, object)
}

// announce sends an event about an object, unless it is the last one for the volume.
func (c *Controller) announce(object api.Object, id v1.UniqueVolumeName, kind, reason, message string) {
	message = telemetry.Text(message)
	if !c.announced.isNews(object.GetUID(), id, reason+message) {
		return
	}
	if !c.isCached(object) { // its end came before the record
		c.announced.forget(object.GetUID())
	}
	c.config.Events(api.Event{Object: object, Type: kind, Reason: reason, Message: message})
}

// isCached reports whether the cache has a pod or a persistent volume.
func (c *Controller) isCached(object api.Object) bool {
	var cached api.Object
	if _, isPod := object.(*v1.Pod); isPod {
		if pod, ok := c.pods.Get(api.KeyOf(object)); ok {
			cached = pod
		}
	} else if pv, ok := c.volumes.Cache().Get(api.KeyOf(object)); ok {
		cached = pv
	}
	return cached != nil && cached.GetUID() == object.GetUID()
}

// announceToPods sends an event about the pods that use a volume on a node.
func (c *Controller) announceToPods(v *volumeView, n *nodeView, kind, reason, message string) {
	for _, pod := range n.pods {
		c.announce(pod, v.id, kind, reason, message)
	}
}

// nameOf returns the name of a volume for users.
func (v *volumeView) nameOf(n *nodeView) string {
	switch {
	case v.specs[n.name] != nil:
		return v.specs[n.name].Name()
	case len(v.sources) > 0:
		return v.sources[0].Name
	}
	return string(v.id)
}

func (c *Controller) reportAttached(v *volumeView, n *nodeView) {
	c.announceToPods(v, n, v1.EventTypeNormal, reasonAttached,
		fmt.Sprintf("AttachVolume.Attach succeeded for volume %q", v.nameOf(n)))
}

// reportRefusal reports why a wanted volume is not attached.
func (c *Controller) reportRefusal(v *volumeView, s step) {
	if len(s.blockers) == 0 {
		c.announceToPods(v, s.node, v1.EventTypeWarning, reasonAttachFailed,
			fmt.Sprintf("AttachVolume.Attach failed for volume %q: the node has no room for another volume of the driver", v.nameOf(s.node)))
		return
	}
	var users, nodes []string
	for _, blocker := range s.blockers {
		nodes = append(nodes, fmt.Sprintf("node %q", blocker.name))
		for _, pod := range blocker.pods {
			users = append(users, pod.Name)
		}
	}
	message := fmt.Sprintf("Multi-Attach error for volume %q: the volume is attached to %s, which has to detach it first",
		v.nameOf(s.node), strings.Join(nodes, ", "))
	if len(users) > 0 {
		slices.Sort(users)
		message = fmt.Sprintf("Multi-Attach error for volume %q: the volume allows one node, and is used on %s by pod(s) %s",
			v.nameOf(s.node), strings.Join(nodes, ", "), strings.Join(users, ", "))
	}
	c.announceToPods(v, s.node, v1.EventTypeWarning, reasonAttachFailed, message)
}

// reportErrors reports the errors of CSI drivers.
func (c *Controller) reportErrors(v *volumeView) {
	for name, va := range v.attachments {
		n := v.byName[name]
		if failed := va.Status.AttachError; failed != nil && !va.Status.Attached {
			c.announceToPods(v, n, v1.EventTypeWarning, reasonAttachFailed,
				fmt.Sprintf("AttachVolume.Attach failed for volume %q: %s", v.nameOf(n), failed.Message))
		}
		if failed := va.Status.DetachError; failed != nil && len(v.sources) > 0 {
			c.announce(v.sources[0], v.id, v1.EventTypeWarning, reasonDetachFailed,
				fmt.Sprintf("DetachVolume.Detach failed for volume %q on node %q: %s", v.nameOf(n), name, failed.Message))
		}
	}
}

// reportAttachFailure reports a failed attach, and begins a pause.
func (c *Controller) reportAttachFailure(v *volumeView, n *nodeView, err error) {
	pause := c.failures.add(v.id, n.name, time.Now(), c.config.Backoff, c.config.MaxBackoff)
	c.config.Logger.Warn("attach failed", "volume", v.id, "node", n.name, "err", err, "retry", pause)
	c.announceAttachFailure(v, n, err)
}

func (c *Controller) announceAttachFailure(v *volumeView, n *nodeView, err error) {
	c.announceToPods(v, n, v1.EventTypeWarning, reasonAttachFailed,
		fmt.Sprintf("AttachVolume.Attach failed for volume %q: %v", v.nameOf(n), err))
}

// reportDetachFailure reports a failed detach, and begins a pause.
func (c *Controller) reportDetachFailure(v *volumeView, n *nodeView, err error) {
	pause := c.failures.add(v.id, n.name, time.Now(), c.config.Backoff, c.config.MaxBackoff)
	c.config.Logger.Warn("detach failed", "volume", v.id, "node", n.name, "err", err, "retry", pause)
	if len(v.sources) > 0 {
		c.announce(v.sources[0], v.id, v1.EventTypeWarning, reasonDetachFailed,
			fmt.Sprintf("DetachVolume.Detach failed for volume %q on node %q: %v", v.nameOf(n), n.name, err))
	}
}

func (c *Controller) reportForced(v *volumeView, s step) {
	c.config.Logger.Warn("forced detach", "volume", v.id, "node", s.node.name, "reason", s.cause)
	c.config.Metrics.Add(ForcedDetaches, 1, manager.Label{Name: "reason", Value: s.cause})
}

// pluginLabel returns the label of the plugin of a volume: also the driver of a CSI volume.
func pluginLabel(id v1.UniqueVolumeName) string {
	if driver, _, ok := splitCSI(id); ok {
		return csiPlugin + ":" + driver
	}
	name, _, err := util.SplitUniqueName(id)
	if err != nil {
		return "N/A"
	}
	return name
}

// reportDuration measures an attach or a detach.
func (c *Controller) reportDuration(v *volumeView, operation string, took time.Duration, err error) {
	c.observeDuration(v.id, operation, took, err == nil)
}

func (c *Controller) observeDuration(id v1.UniqueVolumeName, operation string, took time.Duration, isSuccess bool) {
	telemetry.Duration(c.config.Metrics, operation, pluginLabel(id), took, isSuccess)
}

// timers are the begins of the calls for VolumeAttachments of this run. The zero value is empty.
type timers struct{ table[time.Time] }

func (t *timers) begin(id v1.UniqueVolumeName, node types.NodeName) { t.set(id, node, time.Now()) }

func (t *timers) end(id v1.UniqueVolumeName, node types.NodeName) (took time.Duration, ok bool) {
	took = time.Since(t.get(id, node))
	return took, t.forget(id, node)
}

// reportProgress measures the attaches and detaches of CSI drivers.
func (c *Controller) reportProgress(change api.Change[*storagev1.VolumeAttachment], id v1.UniqueVolumeName) {
	old, va := change.Old, change.New
	operation := attachOperation
	switch {
	case va == nil:
		operation = detachOperation
	case !va.Status.Attached || va.DeletionTimestamp != nil || old != nil && old.Status.Attached:
		return
	}
	if took, ok := c.timers.end(id, types.NodeName(change.Object().Spec.NodeName)); ok {
		c.observeDuration(id, operation, took, true)
	}
}

// Gauges calls yield for the present value of each gauge, computed from the caches. It is for a metrics
// collector, which calls it for each request.
func (c *Controller) Gauges(yield func(name string, value int, labels ...manager.Label)) {
	type series struct{ plugin, state string }
	counts := map[series]int{}
	for _, va := range c.attachments.Cache().List() {
		counts[series{csiPlugin + ":" + va.Spec.Attacher, "actual_state_of_world"}]++
	}
	for _, node := range c.nodes.Cache().List() {
		for _, id := range reportedBy(node) {
			if _, _, isCSI := splitCSI(id); !isCSI {
				counts[series{pluginLabel(id), "actual_state_of_world"}]++
			}
		}
	}
	type pair struct {
		id   v1.UniqueVolumeName
		node string
	}
	wanted := map[pair]bool{}
	for _, pod := range c.pods.List() {
		for _, id := range c.idsOfPod(pod) {
			wanted[pair{id, pod.Spec.NodeName}] = wanted[pair{id, pod.Spec.NodeName}] || !hasFinished(pod)
		}
	}
	for p, isWanted := range wanted {
		if isWanted {
			counts[series{pluginLabel(p.id), "desired_state_of_world"}]++
		}
	}
	for s, count := range counts {
		yield(TotalVolumes, count, manager.Label{Name: "plugin_name", Value: s.plugin}, manager.Label{Name: "state", Value: s.state})
	}
}
