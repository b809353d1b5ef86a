// Package objectpatch builds strategic merge patches of the metadata and of single fields of an object.
package objectpatch

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Patch is a strategic merge patch. Unlike an update it keeps fields that this program does not
// know. Its methods change the patch and return it.
type Patch struct {
	metadata map[string]any
	spec     map[string]any
	status   map[string]any
}

// Of returns an empty patch of one object. The API server refuses it for another object of the name.
func Of(object metav1.Object) Patch {
	return Patch{metadata: map[string]any{"uid": object.GetUID()}}
}

// OfVersion makes the API server refuse the patch with a conflict if the object has changed.
func (p Patch) OfVersion(object metav1.Object) Patch {
	p.metadata["resourceVersion"] = object.GetResourceVersion()
	return p
}

// WithFinalizer adds a finalizer.
func (p Patch) WithFinalizer(name string) Patch {
	p.metadata["finalizers"] = []string{name}
	return p
}

// WithoutFinalizer removes finalizers.
func (p Patch) WithoutFinalizer(names ...string) Patch {
	p.metadata["$deleteFromPrimitiveList/finalizers"] = names
	return p
}

// WithoutAnnotation removes an annotation.
func (p Patch) WithoutAnnotation(name string) Patch {
	p.annotations()[name] = nil
	return p
}

// WithAnnotation sets an annotation.
func (p Patch) WithAnnotation(name, value string) Patch {
	p.annotations()[name] = value
	return p
}

// annotations returns the changes of annotations.
func (p Patch) annotations() map[string]any {
	changes, ok := p.metadata["annotations"].(map[string]any)
	if !ok {
		changes = map[string]any{}
		p.metadata["annotations"] = changes
	}
	return changes
}

// WithCapacity sets the size of the storage of a volume.
func (p Patch) WithCapacity(size string) Patch {
	p.spec = map[string]any{"capacity": map[string]any{"storage": size}}
	return p
}

// WithClass sets the storage class of a claim.
func (p Patch) WithClass(name string) Patch {
	p.spec = map[string]any{"storageClassName": name}
	return p
}

// WithAttributes sets the attributes class of a volume.
func (p Patch) WithAttributes(class string) Patch {
	p.spec = map[string]any{"volumeAttributesClassName": class}
	return p
}

// WithCondition sets a condition of the status, which replaces the fields of one of the same type. The
// patch is one of the subresource status.
func (p Patch) WithCondition(condition any) Patch {
	p.status = map[string]any{"conditions": []any{condition}}
	return p
}

// Encode returns the patch as JSON.
func (p Patch) Encode() ([]byte, error) {
	fields := map[string]any{"metadata": p.metadata}
	if p.spec != nil {
		fields["spec"] = p.spec
	}
	if p.status != nil {
		fields["status"] = p.status
	}
	return json.Marshal(fields)
}
