package manager

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// operators are those of a node selector, as labels have them.
var operators = map[v1.NodeSelectorOperator]selection.Operator{
	v1.NodeSelectorOpIn:           selection.In,
	v1.NodeSelectorOpNotIn:        selection.NotIn,
	v1.NodeSelectorOpExists:       selection.Exists,
	v1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	v1.NodeSelectorOpGt:           selection.GreaterThan,
	v1.NodeSelectorOpLt:           selection.LessThan,
}

// A node is what node selectors choose by.
type node struct {
	name   string
	labels map[string]string
}

// newNode is this node. Without labels it has the one that all nodes have.
func newNode(c Config) node {
	n := node{string(c.Host.NodeName()), c.NodeLabels}
	if n.labels == nil {
		n.labels = map[string]string{v1.LabelHostname: n.name}
	}
	return n
}

// checkAffinity refuses a volume that is for other nodes: on this one its path may be
// somebody else's.
func (n node) checkAffinity(pv *v1.PersistentVolume) error {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if matches, err := n.matches(term); err != nil {
			return fmt.Errorf("%w: the volume's node affinity: %w", ErrNotBound, err)
		} else if matches {
			return nil
		}
	}
	return fmt.Errorf("%w: by its node affinity the volume is not for this node (%q, labels %s)",
		ErrNotBound, n.name, labels.FormatLabels(n.labels))
}

// matches reports whether all that a term asks for is so. An empty one matches nothing.
func (n node) matches(term v1.NodeSelectorTerm) (bool, error) {
	for _, r := range term.MatchExpressions {
		requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		if err != nil || !requirement.Matches(labels.Set(n.labels)) {
			return false, err
		}
	}
	for _, r := range term.MatchFields {
		if is, err := n.matchesField(r); err != nil || !is {
			return false, err
		}
	}
	return len(term.MatchExpressions)+len(term.MatchFields) > 0, nil
}

// matchesField knows one field of a node, as Kubernetes does.
func (n node) matchesField(r v1.NodeSelectorRequirement) (bool, error) {
	is := slices.Contains(r.Values, n.name)
	switch {
	case r.Key != metav1.ObjectNameField:
	case r.Operator == v1.NodeSelectorOpIn:
		return is, nil
	case r.Operator == v1.NodeSelectorOpNotIn:
		return !is, nil
	}
	return false, fmt.Errorf("%s %s is no requirement of a node's field", r.Key, r.Operator)
}
