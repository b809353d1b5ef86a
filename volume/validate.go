package volume

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxComponent is the longest name that a directory entry can have, in bytes.
const maxComponent = 255

// Validate checks what is needed to find a plugin and a place on disk for the
// volume: exactly one of Volume and PersistentVolume is set, it has a name that
// is a path component, and not more than one source. What is in the source is
// for the plugin to check. The error is a [*field.Error].
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
		return field.Invalid(path, strings.Join(names, ", "), "a volume has one source")
	}
	return nil
}

func (s *Spec) namePath(spec *field.Path) *field.Path {
	if s.Volume != nil {
		return spec.Child("volume", "name")
	}
	return spec.Child("persistentVolume", "metadata", "name")
}

// ValidatePathComponent checks that a value, which anybody may have written, is
// one component of a path: not empty, not "." or "..", without a separator or
// NUL, and at most 255 bytes. The error is a [*field.Error] for the field at
// path, with the value shortened.
func ValidatePathComponent(path *field.Path, value string) error {
	switch {
	case value == "":
		return field.Required(path, "a path component is not empty")
	case len(value) > maxComponent:
		return Invalid(path, value, fmt.Sprintf("a path component has at most %d bytes", maxComponent))
	case value == ".", value == "..":
		return Invalid(path, value, `a path component is not "." or ".."`)
	case strings.ContainsAny(value, "/\x00"):
		return Invalid(path, value, `a path component holds no "/" or NUL`)
	case strings.ContainsRune(value, filepath.Separator), !filepath.IsLocal(value):
		return Invalid(path, value, "not the name of a file on this system")
	}
	return nil
}

// ValidateID checks that an ID, if there is one, can be a user's or a group's. The error
// is a [*field.Error] for the field at path.
func ValidateID(path *field.Path, id *int64) error {
	const last = 1<<32 - 1 // stands for no ID
	if id != nil && (*id < 0 || *id >= last) {
		return field.Invalid(path, *id, "not a user's or group's ID")
	}
	return nil
}

// Invalid returns [field.Invalid] with the value shortened: anybody may have written
// it.
func Invalid(path *field.Path, value, detail string) *field.Error {
	return field.Invalid(path, shorten(value), detail)
}

// shorten keeps hostile text from filling a log.
func shorten(s string) string {
	const limit = 128
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
