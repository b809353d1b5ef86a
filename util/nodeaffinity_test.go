package util_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestCheckNodeAffinity: a volume matches the nodes of its terms, one of which is enough.
func TestCheckNodeAffinity(t *testing.T) {
	hostname := map[string]string{v1.LabelHostname: "node-1"}
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
		"no terms":                        {hostname, terms{}, false},
		"an empty term":                   {hostname, terms{all()}, false},
		"hostname":                        {hostname, terms{all(asks(v1.LabelHostname, "In", "node-0", "node-1"))}, true},
		"other hostname":                  {hostname, terms{all(asks(v1.LabelHostname, "In", "node-0"))}, false},
		"hostname not told":               {labelled, terms{all(asks(v1.LabelHostname, "In", "node-1"))}, false},
		"zone":                            {labelled, terms{all(asks("zone", "In", "a", "b"))}, true},
		"zone not told":                   {hostname, terms{all(asks("zone", "In", "a", "b"))}, false},
		"other zone":                      {labelled, terms{all(asks("zone", "NotIn", "a"))}, false},
		"one of two terms":                {labelled, terms{all(asks("zone", "In", "b")), all(asks("zone", "Exists"))}, true},
		"one of two":                      {labelled, terms{all(asks("zone", "In", "a"), asks("disk", "Exists"))}, false},
		"lacks a label":                   {labelled, terms{all(asks("disk", "DoesNotExist"))}, true},
		"more than":                       {labelled, terms{all(asks("cpus", "Gt", "7"))}, true},
		"less than":                       {labelled, terms{all(asks("cpus", "Lt", "8"))}, false},
		"name":                            {labelled, terms{named("In", "node-1")}, true},
		"other name":                      {labelled, terms{named("In", "node-0")}, false},
		"but one name":                    {labelled, terms{named("NotIn", "node-1")}, false},
		"name and label":                  {labelled, terms{{MatchFields: named("In", "node-1").MatchFields, MatchExpressions: all(asks("zone", "In", "b")).MatchExpressions}}, false},
		"malformed, and one that matches": {labelled, terms{all(asks("zone", "Like", "a")), named("In", "node-1")}, true},
	} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: test.labels}}
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
		require.NoError(t, util.CheckNodeAffinity(pv, node), name)
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{}
		require.NoError(t, util.CheckNodeAffinity(pv, node), name)
		pv.Spec.NodeAffinity.Required = &v1.NodeSelector{NodeSelectorTerms: test.terms}
		before := pv.DeepCopy()
		if err := util.CheckNodeAffinity(pv, node); test.ok {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, util.ErrMismatch, name)
			require.ErrorContains(t, err, `spec.nodeAffinity: node "node-1"`)
		}
		require.Equal(t, before, pv, "arguments are read only")
	}
}

// TestMalformedNodeAffinity: the error names the field, with its value shortened.
func TestMalformedNodeAffinity(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"cpus": "8"}}}
	expression := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	ofField := func(key string, op v1.NodeSelectorOperator) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: []string{"node-1"}}}}
	}
	for name, test := range map[string]struct {
		term  v1.NodeSelectorTerm
		field string
	}{
		"operator":       {expression("cpus", "Like", "a"), "matchExpressions[0]"},
		"long operator":  {expression("cpus", v1.NodeSelectorOperator(long), long), "matchExpressions[0]"},
		"no number":      {expression("cpus", "Gt", "many"), "matchExpressions[0]"},
		"long key":       {expression(long, "In", long), "matchExpressions[0]"},
		"no values":      {expression("cpus", "In"), "matchExpressions[0]"},
		"other field":    {ofField("metadata.uid", "In"), "matchFields[0]"},
		"field operator": {ofField("metadata.name", "Exists"), "matchFields[0]"},
	} {
		pv := &v1.PersistentVolume{}
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{expression("disk", "Exists"), test.term},
		}}
		var refused *field.Error
		err := util.CheckNodeAffinity(pv, node)
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, "persistentVolume.spec.nodeAffinity.required.nodeSelectorTerms[1]."+test.field, refused.Field, name)
		require.NotErrorIs(t, err, util.ErrMismatch)
		require.Less(t, len(err.Error()), 1024, name)
	}
	var refused *field.Error
	require.ErrorAs(t, util.CheckNodeAffinity(nil, node), &refused)
	bound := &v1.PersistentVolume{}
	require.NoError(t, util.CheckNodeAffinity(bound, nil))
	bound.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{}}
	require.ErrorAs(t, util.CheckNodeAffinity(bound, nil), &refused)
}
