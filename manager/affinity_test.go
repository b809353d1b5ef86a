package manager

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestAffinity: a volume is for the nodes that its terms choose, one of which is enough.
func TestAffinity(t *testing.T) {
	host, err := volume.NewHost(t.TempDir(), volume.WithNodeName("node-1"))
	require.NoError(t, err)
	labelled := map[string]string{"zone": "a", "cpus": "8"}
	asks := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	all := func(requirements ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: requirements}
	}
	named := func(op v1.NodeSelectorOperator, names ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{asks("metadata.name", op, names...)}}
	}
	type terms []v1.NodeSelectorTerm
	for name, test := range map[string]struct {
		labels map[string]string
		terms  terms
		ok     bool
	}{
		"no terms":           {nil, terms{}, false},
		"an empty term":      {nil, terms{all()}, false},
		"hostname":           {nil, terms{all(asks(v1.LabelHostname, "In", "node-0", "node-1"))}, true},
		"other hostname":     {nil, terms{all(asks(v1.LabelHostname, "In", "node-0"))}, false},
		"hostname not told":  {labelled, terms{all(asks(v1.LabelHostname, "In", "node-1"))}, false},
		"zone":               {labelled, terms{all(asks("zone", "In", "a", "b"))}, true},
		"zone not told":      {nil, terms{all(asks("zone", "In", "a", "b"))}, false},
		"other zone":         {labelled, terms{all(asks("zone", "NotIn", "a"))}, false},
		"one of two terms":   {labelled, terms{all(asks("zone", "In", "b")), all(asks("zone", "Exists"))}, true},
		"one of two":         {labelled, terms{all(asks("zone", "In", "a"), asks("disk", "Exists"))}, false},
		"lacks a label":      {labelled, terms{all(asks("disk", "DoesNotExist"))}, true},
		"more than":          {labelled, terms{all(asks("cpus", "Gt", "7"))}, true},
		"less than":          {labelled, terms{all(asks("cpus", "Lt", "8"))}, false},
		"name":               {labelled, terms{named("In", "node-1")}, true},
		"other name":         {labelled, terms{named("In", "node-0")}, false},
		"but one name":       {labelled, terms{named("NotIn", "node-1")}, false},
		"name and label":     {labelled, terms{{MatchFields: named("In", "node-1").MatchFields, MatchExpressions: all(asks("zone", "In", "b")).MatchExpressions}}, false},
		"no such operator":   {labelled, terms{all(asks("zone", "Like", "a"))}, false},
		"no number":          {labelled, terms{all(asks("cpus", "Gt", "many"))}, false},
		"field not of nodes": {labelled, terms{{MatchFields: []v1.NodeSelectorRequirement{asks("metadata.uid", "In", "node-1")}}}, false},
	} {
		pv := &v1.PersistentVolume{}
		n := newNode(Config{Host: host, NodeLabels: test.labels})
		require.NoError(t, n.checkAffinity(pv), name)
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{}
		require.NoError(t, n.checkAffinity(pv), name)
		pv.Spec.NodeAffinity.Required = &v1.NodeSelector{NodeSelectorTerms: test.terms}
		if err := n.checkAffinity(pv); test.ok {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, ErrNotBound, name)
		}
	}
}
