package util

import "github.com/volumekit/volumekit/volume"

// EscapeQualifiedName is [volume.EscapeQualifiedName].
func EscapeQualifiedName(name string) (string, error) {
	return volume.EscapeQualifiedName(name)
}

// UnescapeQualifiedName is [volume.UnescapeQualifiedName].
func UnescapeQualifiedName(escaped string) (string, error) {
	return volume.UnescapeQualifiedName(escaped)
}
