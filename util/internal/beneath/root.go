package beneath

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// ErrIsTop: nobody wants that.
var ErrIsTop = errors.New("the root of the file system hierarchy")

// BadRoot says what is wrong with the path of a directory, and "" if nothing is.
func BadRoot(name string) string {
	switch {
	case !path.IsAbs(name):
		return "not absolute"
	case strings.ContainsRune(name, 0):
		return "has a NUL"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return `has ".."`
	case path.Clean(name) == "/":
		return ErrIsTop.Error()
	}
	return ""
}
