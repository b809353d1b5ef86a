package volume

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxComponent is the longest name that a directory entry can have, in bytes.
const maxComponent = 255

// Validate checks the fields by which a plugin and a directory for the volume are found:
// exactly one of Volume and PersistentVolume is set, its name is a path component, and it has
// at most one source. The plugin validates the source. The error is a [*field.Error].
func (s *Spec) Validate() error {
	path := field.NewPath("spec")
	switch {
	case s == nil, s.Volume == nil && s.PersistentVolume == nil:
		return field.Required(path, "a volume or a persistent volume is needed")
	case s.Volume != nil && s.PersistentVolume != nil:
		return field.Forbidden(path, "a volume and a persistent volume exclude each other")
	}
	if err := ValidatePathComponent(s.namePath(path), s.Name()); err != nil {
		return err
	}
	if names := s.sourceNames(); len(names) > 1 {
		return field.Invalid(path, strings.Join(names, ", "), "must have one source")
	}
	return nil
}

func (s *Spec) namePath(spec *field.Path) *field.Path {
	if s.Volume != nil {
		return spec.Child("volume", "name")
	}
	return spec.Child("persistentVolume", "metadata", "name")
}

// ValidatePathComponent checks that an untrusted value is one component of a path: not empty,
// not "." or "..", without a separator or NUL, and at most 255 bytes. The error is a
// [*field.Error] for the field at path, with the value shortened.
func ValidatePathComponent(path *field.Path, value string) error {
	switch {
	case value == "":
		return field.Required(path, "must not be empty")
	case len(value) > maxComponent:
		return Invalid(path, value, fmt.Sprintf("must be at most %d bytes", maxComponent))
	case value == ".", value == "..":
		return Invalid(path, value, `must not be "." or ".."`)
	case strings.ContainsAny(value, "/\x00"):
		return Invalid(path, value, `must not contain "/" or NUL`)
	case strings.ContainsRune(value, filepath.Separator), !filepath.IsLocal(value):
		return Invalid(path, value, "must be a valid file name on this system")
	}
	return nil
}

// ValidateID checks that an ID, if there is one, can be a user's or a group's. The error
// is a [*field.Error] for the field at path.
func ValidateID(path *field.Path, id *int64) error {
	const last = 1<<32 - 1 // is no valid ID
	if id != nil && (*id < 0 || *id >= last) {
		return field.Invalid(path, *id, "must be a user or group ID")
	}
	return nil
}

// Invalid returns [field.Invalid] with the value shortened, since it is untrusted.
func Invalid(path *field.Path, value, detail string) *field.Error {
	return field.Invalid(path, input.Shorten(value), detail)
}
