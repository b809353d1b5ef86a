package volume

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// EscapeQualifiedName returns the name of a plugin as it stands in a path:
// "kubernetes.io~nfs" for "kubernetes.io/nfs". [UnescapeQualifiedName] takes it
// back. A name that could not be taken back, or whose escape is no single path
// component, is refused with a [*field.Error]: one with a "~", with more than
// one "/", or with something on a side of it that is no path component.
func EscapeQualifiedName(name string) (string, error) {
	return escapeQualifiedName(field.NewPath("name"), name)
}

// UnescapeQualifiedName is the reverse of [EscapeQualifiedName], for names found
// on disk. What EscapeQualifiedName cannot have returned is refused with a
// [*field.Error].
func UnescapeQualifiedName(escaped string) (string, error) {
	path := field.NewPath("escaped")
	if strings.Contains(escaped, "/") {
		return "", Invalid(path, escaped, `must not contain "/"`)
	}
	name := strings.ReplaceAll(escaped, "~", "/")
	if _, err := escapeQualifiedName(path, name); err != nil {
		return "", err
	}
	return name, nil
}

func escapeQualifiedName(path *field.Path, name string) (string, error) {
	if strings.Contains(name, "~") {
		return "", Invalid(path, name, `must not contain "~"`)
	}
	parts := strings.Split(name, "/")
	if len(parts) > 2 {
		return "", Invalid(path, name, `must be "prefix/name"`)
	}
	for _, part := range parts {
		if err := ValidatePathComponent(path, part); err != nil {
			return "", err
		}
	}
	escaped := strings.ReplaceAll(name, "/", "~")
	if err := ValidatePathComponent(path, escaped); err != nil {
		return "", err
	}
	return escaped, nil
}
