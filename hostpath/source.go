package hostpath

import (
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A source is what a specification asks for, once it is in order.
type source struct {
	path string // below the root, no symbolic link on the way to which counts
	root string
	kind v1.HostPathType
}

// sourceOf returns what is written in the specification, and where.
func sourceOf(spec *volume.Spec) (*v1.HostPathVolumeSource, *field.Path) {
	switch at := field.NewPath("spec"); {
	case spec == nil:
	case spec.Volume != nil:
		return spec.Volume.HostPath, at.Child("volume", "hostPath")
	case spec.PersistentVolume != nil:
		return spec.PersistentVolume.Spec.HostPath, at.Child("persistentVolume", "spec", "hostPath")
	}
	return nil, nil
}

// source looks at the text of a specification alone.
func (p *Plugin) source(spec *volume.Spec) (source, error) {
	if err := spec.Validate(); err != nil {
		return source{}, err
	}
	written, at := sourceOf(spec)
	if written == nil {
		return source{}, field.Required(field.NewPath("spec", "volume", "hostPath"), "not a path of the node")
	}
	if spec.IsBlock() {
		return source{}, fmt.Errorf("block volume %s: %w", spec.Name(), volume.ErrNotSupported)
	}
	if p.roots == nil {
		return source{}, errNotInitialised
	}
	s := source{}
	if written.Type != nil {
		s.kind = *written.Type
	}
	if _, ok := wanted[s.kind]; !ok {
		return source{}, volume.Invalid(at.Child("type"), string(s.kind), "there is no such type")
	}
	var err error
	s.path, s.root, err = p.roots.Find(at.Child("path"), written.Path)
	return s, err
}

// isDevice reports whether the type is one for which the mount needs the option dev.
func (s source) isDevice() bool {
	return s.kind == v1.HostPathCharDev || s.kind == v1.HostPathBlockDev
}
