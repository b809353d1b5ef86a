package hostpath

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A source is a validated specification.
type source struct {
	path string // as written, from the own path of a root or of a directory of links on
	kind v1.HostPathType

	field     *field.Path
	written   string
	typeField *field.Path
}

// sourceOf returns the source in the specification and its field path.
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

// source validates the text of a specification without a look at files.
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
	s := source{field: at.Child("path"), written: written.Path, typeField: at.Child("type")}
	if written.Type != nil {
		s.kind = *written.Type
	}
	if _, ok := typeChecks[s.kind]; !ok {
		return source{}, volume.Invalid(s.typeField, string(s.kind), "must be a type of hostPath volumes")
	}
	var err error
	s.path, _, err = p.roots.Find(s.field, written.Path)
	if err == nil {
		return s, nil
	}
	// The path may begin below a directory of links if it ends below a root.
	var linked error
	if s.path, _, linked = p.links.Find(s.field, written.Path); linked == nil {
		return s, nil
	}
	return s, err
}

// withPath returns the source for another path, if that is not empty.
func (s source) withPath(name string) source {
	if name != "" {
		s.path = name
	}
	return s
}

// errOutside returns the error of a path that does not end below a root.
func (s source) errOutside() error {
	return volume.Invalid(s.field, s.written, "must be below one of the plugin's roots")
}

// isDevice reports whether a volume with a file of this mode requires the mount option dev: the
// type says that the file is a device, or does not say what it is. A mode of 0 is not known yet.
func (s source) isDevice(mode fs.FileMode) bool {
	switch s.kind {
	case v1.HostPathCharDev, v1.HostPathBlockDev:
		return true
	case v1.HostPathUnset:
		return mode&fs.ModeDevice != 0
	}
	return false
}

// refusedDevice returns the error of a mount of a file of this mode. It names the volume's type,
// or the path of a volume without a type, instead of the option dev, which request has added, if
// the mounter refuses that.
func (s source) refusedDevice(err error, mode fs.FileMode) error {
	var refused *mount.InputError
	switch isRefused := s.isDevice(mode) && errors.As(err, &refused) && refused.Value == "dev"; {
	case isRefused && s.kind == v1.HostPathUnset:
		return volume.Invalid(s.field, s.written, refused.Reason)
	case isRefused:
		return volume.Invalid(s.typeField, string(s.kind), refused.Reason)
	}
	return err
}
