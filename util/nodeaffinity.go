package util

import (
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// operators maps the operators of node selectors to those of labels.
var operators = map[v1.NodeSelectorOperator]selection.Operator{
	v1.NodeSelectorOpIn:           selection.In,
	v1.NodeSelectorOpNotIn:        selection.NotIn,
	v1.NodeSelectorOpExists:       selection.Exists,
	v1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	v1.NodeSelectorOpGt:           selection.GreaterThan,
	v1.NodeSelectorOpLt:           selection.LessThan,
}

// CheckNodeAffinity returns nil if the volume can be used on the node, by the node
// affinity of the volume and the name and labels of the node. A volume without required
// node affinity can be used on every node; a volume with no terms, or only empty ones, on
// none. One matching term is enough.
//
// The error wraps [ErrMismatch] if no term matches. If no term matches and a term is
// malformed, the error is a [*field.Error] that names the field instead. CheckNodeAffinity
// only reads its arguments.
func CheckNodeAffinity(pv *v1.PersistentVolume, node *v1.Node) error {
	switch {
	case pv == nil:
		return field.Required(field.NewPath("persistentVolume"), "needed for the check")
	case pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil:
		return nil
	case node == nil:
		return field.Required(field.NewPath("node"), "the volume has a node affinity")
	}
	var malformed error
	terms := field.NewPath("persistentVolume", "spec", "nodeAffinity", "required", "nodeSelectorTerms")
	for i, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		matches, err := termMatches(terms.Index(i), term, node)
		if matches {
			return nil
		}
		malformed = firstError(malformed, err)
	}
	if malformed != nil {
		return malformed
	}
	return fmt.Errorf("spec.nodeAffinity: node %s, labels %.1024q: %w",
		input.Quote(node.Name), labels.FormatLabels(node.Labels), ErrMismatch)
}

// ErrMismatch is wrapped by the errors of [MatchVolume] and [CheckNodeAffinity] about a
// well-formed volume that does not match. Another volume, or another node, may match.
var ErrMismatch = errors.New("no match")

func firstError(first, next error) error {
	if first != nil {
		return first
	}
	return next
}

// termMatches reports whether the node meets all requirements of the term. An empty term
// matches nothing.
func termMatches(at *field.Path, term v1.NodeSelectorTerm, node *v1.Node) (bool, error) {
	for i, r := range term.MatchExpressions {
		if ok, err := labelMatches(at.Child("matchExpressions").Index(i), r, node.Labels); !ok {
			return false, err
		}
	}
	for i, r := range term.MatchFields {
		if ok, err := fieldMatches(at.Child("matchFields").Index(i), r, node.Name); !ok {
			return false, err
		}
	}
	return len(term.MatchExpressions)+len(term.MatchFields) > 0, nil
}

func labelMatches(at *field.Path, r v1.NodeSelectorRequirement, of labels.Set) (bool, error) {
	requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
	if err != nil {
		return false, volume.Invalid(at, fmt.Sprintf("%s %s %s", r.Key, r.Operator, r.Values), "not a requirement of a label")
	}
	return requirement.Matches(of), nil
}

// fieldMatches supports metadata.name, the only field of nodes that Kubernetes selects by.
func fieldMatches(at *field.Path, r v1.NodeSelectorRequirement, nodeName string) (bool, error) {
	is := slices.Contains(r.Values, nodeName)
	switch {
	case r.Key != metav1.ObjectNameField:
	case r.Operator == v1.NodeSelectorOpIn:
		return is, nil
	case r.Operator == v1.NodeSelectorOpNotIn:
		return !is, nil
	}
	return false, volume.Invalid(at, fmt.Sprintf("%s %s", r.Key, r.Operator), "not a requirement of a node's field")
}
