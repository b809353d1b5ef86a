package apitest

import (
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// A selection selects objects of one kind by namespace, labels and fields.
type selection struct {
	kind      *kind
	namespace string // "": all
	labels    labels.Selector
	fields    fields.Selector
	trigger   trigger
}

func newSelection(k *kind, namespace string, options metav1.ListOptions) (selection, error) {
	sel := selection{kind: k, namespace: namespace}
	var err error
	if sel.labels, err = labels.Parse(options.LabelSelector); err != nil {
		return sel, apierrors.NewBadRequest(fmt.Sprintf("unable to parse label selector %q: %v", options.LabelSelector, err))
	}
	if sel.fields, err = fields.ParseSelector(options.FieldSelector); err != nil {
		return sel, apierrors.NewBadRequest(fmt.Sprintf("unable to parse field selector %q: %v", options.FieldSelector, err))
	}
	for _, r := range sel.fields.Requirements() {
		if k.fields[r.Field] == nil {
			return sel, apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	for _, name := range []string{"metadata.name", k.index} {
		if value, ok := sel.fields.RequiresExactMatch(name); ok {
			sel.trigger = trigger{name, value}
		}
	}
	return sel, nil
}

// all returns the selection of all objects.
func all(k *kind) selection {
	return selection{kind: k, labels: labels.Everything(), fields: fields.Everything()}
}

func (s selection) matches(object api.Object) bool {
	return (s.namespace == "" || s.namespace == object.GetNamespace()) &&
		s.fields.Matches(objectFields{s.kind, object}) &&
		(s.labels.Empty() || s.labels.Matches(labels.Set(object.GetLabels())))
}

// isAll reports whether the selection selects by namespace only.
func (s selection) isAll() bool { return s.labels.Empty() && s.fields.Empty() }

// objectFields are the fields of an object, read without an allocation.
type objectFields struct {
	kind   *kind
	object api.Object
}

func (f objectFields) Has(field string) bool { return f.kind.fields[field] != nil }

func (f objectFields) Get(field string) string {
	if value := f.kind.fields[field]; value != nil {
		return value(f.object)
	}
	return ""
}
