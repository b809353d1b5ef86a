// Package tablepath converts paths of this system to and from paths of a mount table, which
// have slashes and begin with one, also on Windows.
package tablepath

import (
	"path/filepath"
	"strings"
)

// Of returns an absolute path in the form of a mount table: with slashes, and on Windows with a
// slash before the volume name.
func Of(path string) string {
	if filepath.VolumeName(path) == "" {
		return filepath.ToSlash(path)
	}
	return "/" + filepath.ToSlash(path)
}

// Native reverts Of.
func Native(path string) string {
	if rest := strings.TrimPrefix(path, "/"); filepath.VolumeName(rest) != "" {
		path = rest
	}
	return filepath.FromSlash(path)
}
