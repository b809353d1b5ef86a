package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Problem returns an error of a plugin with the document and field of the manifest: plugins
// name the fields of a volume.Spec, and a mounter names its options.
func (v Volume) Problem(err error) Problem { return v.source.Problem(v.inDocument(err)) }

func (v Volume) inDocument(err error) error {
	if v.Spec == nil { // a Volume that was not returned by Volumes
		return err
	}
	if refused := (*mount.InputError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("%s: %w", v.optionsField(), err)
	}
	if errors.Is(err, volume.ErrNoPluginMatched) {
		return fmt.Errorf("%s: %w", v.kindField(), err)
	}
	refused := (*field.Error)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	moved := *refused
	moved.Field = v.fieldOf(refused.Field)
	return &moved
}

// fieldOf returns the field of the document for a field of a volume.Spec.
func (v Volume) fieldOf(name string) string {
	if v.Spec.Volume == nil {
		return strings.TrimPrefix(name, "spec.persistentVolume.")
	}
	if rest, ok := strings.CutPrefix(name, "spec.volume."); ok {
		return v.source.path.String() + "." + rest
	}
	if name == "spec" {
		return v.source.path.String()
	}
	return name
}

// kindField returns the field that names the kind of volume.
func (v Volume) kindField() *field.Path {
	path := v.source.path
	var source any
	if v.Spec.PersistentVolume != nil {
		path, source = field.NewPath("spec"), v.Spec.PersistentVolume.Spec.PersistentVolumeSource
	} else {
		source = v.Spec.Volume.VolumeSource
	}
	for name := range setFields(source) {
		path = path.Child(name)
	}
	return path
}

// optionsField returns the field that determines the options of a mount. A volume of the pod
// itself has only its source.
func (v Volume) optionsField() *field.Path {
	if v.Spec.PersistentVolume != nil {
		return field.NewPath("spec", "mountOptions")
	}
	return v.kindField()
}

// setFields returns the fields of an API object that are set.
func setFields(object any) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	text, err := json.Marshal(object)
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return nil
	}
	return fields
}
