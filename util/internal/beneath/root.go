package beneath

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// ErrIsTop refuses the root of the file system hierarchy as the root of a walk.
var ErrIsTop = errors.New("the root of the file system hierarchy")

// BadRoot returns why a path is invalid as the root of a walk, or "".
func BadRoot(name string) string {
	switch {
	case !path.IsAbs(name):
		return "not absolute"
	case strings.ContainsRune(name, 0):
		return "must not contain NUL"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return `has ".."`
	case path.Clean(name) == "/":
		return ErrIsTop.Error()
	}
	return ""
}
