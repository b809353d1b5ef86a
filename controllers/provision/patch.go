package provision

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A patch is a strategic merge patch. Unlike an update it keeps fields that this program does not
// know.
type patch struct {
	metadata map[string]any
	spec     map[string]any
}

// patchOf returns an empty patch of one object. The API server refuses it for another object of the
// name.
func patchOf(object metav1.Object) patch {
	return patch{metadata: map[string]any{"uid": object.GetUID()}}
}

// ofVersion makes the API server refuse the patch with a conflict if the object has changed.
func (p patch) ofVersion(object metav1.Object) patch {
	p.metadata["resourceVersion"] = object.GetResourceVersion()
	return p
}

func (p patch) withFinalizer(name string) patch {
	p.metadata["finalizers"] = []string{name}
	return p
}

func (p patch) withoutFinalizer(name string) patch {
	p.metadata["$deleteFromPrimitiveList/finalizers"] = []string{name}
	return p
}

func (p patch) withoutAnnotation(name string) patch {
	p.metadata["annotations"] = map[string]any{name: nil}
	return p
}

func (p patch) withClass(name string) patch {
	p.spec = map[string]any{"storageClassName": name}
	return p
}

// encode returns the patch as JSON.
func (p patch) encode() ([]byte, error) {
	fields := map[string]any{"metadata": p.metadata}
	if p.spec != nil {
		fields["spec"] = p.spec
	}
	return json.Marshal(fields)
}
