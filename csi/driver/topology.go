package driver

import (
	"fmt"
	"maps"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mostTopologies bounds the topologies of a volume, and those of a request.
const mostTopologies = 1024

// ownTopology returns the segments of this node, or nil.
func (d *driver) ownTopology() map[string]string {
	if len(d.config.Topology) == 0 {
		return nil
	}
	segments := map[string]string{}
	for _, s := range d.config.Topology {
		segments[s.Key] = s.Value
	}
	return segments
}

// wanted returns the topologies of a request in the order in which they are tried: the preferred ones
// first. None: the plugin chooses.
func (d *driver) wanted(r *csipb.TopologyRequirement) (topologies []map[string]string, err error) {
	if r == nil {
		return nil, nil
	}
	at := field.NewPath("accessibilityRequirements")
	switch {
	case len(d.config.Topology) == 0:
		return nil, field.Forbidden(at, "the driver does not declare VOLUME_ACCESSIBILITY_CONSTRAINTS")
	case len(r.GetPreferred())+len(r.GetRequisite()) > mostTopologies:
		return nil, field.TooMany(at, len(r.GetPreferred())+len(r.GetRequisite()), mostTopologies)
	}
	for _, list := range []struct {
		name string
		of   []*csipb.Topology
	}{{"preferred", r.GetPreferred()}, {"requisite", r.GetRequisite()}} {
		for i, topology := range list.of {
			segments := topology.GetSegments()
			if err := d.checkSegments(at.Child(list.name).Index(i), segments); err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(topologies, func(t map[string]string) bool { return maps.Equal(t, segments) }) {
				topologies = append(topologies, segments)
			}
		}
	}
	return topologies, nil
}

// checkSegments accepts the keys of the driver with values of labels.
func (d *driver) checkSegments(at *field.Path, segments map[string]string) error {
	if len(segments) == 0 {
		return field.Required(at, "must have segments")
	}
	for _, key := range slices.Sorted(maps.Keys(segments)) {
		if !slices.ContainsFunc(d.config.Topology, func(s Segment) bool { return s.Key == key }) {
			return volume.Invalid(at, key, "not a topology of the driver")
		}
		if problems := input.Problems(validation.IsValidLabelValue, segments[key]); len(problems) > 0 || segments[key] == "" {
			return volume.Invalid(at.Key(key), segments[key], "must be the value of a label, and not empty")
		}
	}
	return nil
}

// nodeIn returns a node with the segments as labels. Its name is this node's for its own segments, or
// else the value of kubernetes.io/hostname. Nil: no segments.
func (d *driver) nodeIn(segments map[string]string) *v1.Node {
	if segments == nil {
		return nil
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	own := true
	for _, s := range d.config.Topology {
		if value, ok := segments[s.Key]; ok {
			node.Labels[s.label()] = value
			own = own && value == s.Value
		}
	}
	node.Name = node.Labels[v1.LabelHostname]
	if own {
		node.Name = string(d.config.Host.NodeName())
	}
	return node
}

// accessible returns the topologies from which a volume is reached, by its node affinity. None: from
// everywhere.
func (d *driver) accessible(pv *v1.PersistentVolume) (topologies []map[string]string, err error) {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil, nil
	}
	for i, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		of, err := d.topologiesOf(term)
		if err == nil && len(topologies)+len(of) > mostTopologies {
			err = fmt.Errorf("has more than %d topologies", mostTopologies)
		}
		if err != nil {
			return nil, fmt.Errorf("node affinity of volume %s, term %d: %w", pv.Name, i, err)
		}
		topologies = append(topologies, of...)
	}
	if len(topologies) == 0 {
		return nil, fmt.Errorf("node affinity of volume %s: no node reaches the volume", pv.Name)
	}
	return topologies, nil
}

// topologiesOf returns one topology for each combination of the values in a term.
func (d *driver) topologiesOf(term v1.NodeSelectorTerm) ([]map[string]string, error) {
	if len(term.MatchFields) > 0 || len(term.MatchExpressions) == 0 {
		return nil, fmt.Errorf("must select labels of nodes alone")
	}
	topologies := []map[string]string{{}}
	for _, r := range term.MatchExpressions {
		i := slices.IndexFunc(d.config.Topology, func(s Segment) bool { return s.label() == r.Key })
		if i < 0 || r.Operator != v1.NodeSelectorOpIn {
			return nil, fmt.Errorf("%s %s: not a label in Config.Topology with the operator In", r.Key, r.Operator)
		}
		if len(topologies)*len(r.Values) > mostTopologies {
			return nil, fmt.Errorf("has more than %d topologies", mostTopologies)
		}
		var next []map[string]string
		for _, t := range topologies {
			for _, value := range r.Values {
				with := maps.Clone(t)
				with[d.config.Topology[i].Key] = value
				next = append(next, with)
			}
		}
		topologies = next
	}
	return topologies, nil
}

// isReached reports whether a volume with these topologies fulfils a request. None: from everywhere.
func isReached(topologies, wanted []map[string]string) bool {
	if len(topologies) == 0 || len(wanted) == 0 {
		return true
	}
	for _, w := range wanted {
		for _, t := range topologies {
			if includes(t, w) || includes(w, t) {
				return true
			}
		}
	}
	return false
}

// includes reports whether all segments of part are in whole.
func includes(whole, part map[string]string) bool {
	for key, value := range part {
		if whole[key] != value {
			return false
		}
	}
	return true
}

func topologyMessages(topologies []map[string]string) (messages []*csipb.Topology) {
	for _, segments := range topologies {
		messages = append(messages, &csipb.Topology{Segments: segments})
	}
	return messages
}
