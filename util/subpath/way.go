package subpath

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// A way is the unresolved rest of a path, component by component.
type way struct {
	rest  []string
	links int // symbolic links followed so far
}

// maxDepth limits the depth of a path. All directories on the way are open.
const maxDepth = 256

// mostLinks limits the symbolic links that are followed, as in Linux.
const mostLinks = 40

var errTooManyLinks = errors.New("too many symbolic links")

func newWay(p string) way { return way{rest: split(p)} }

// split splits a path into components, without empty ones and ".".
func split(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(part string) bool { return part == "" || part == "." })
}

// next returns the next component, which may be "..".
func (w *way) next() (part string, ok bool) {
	if len(w.rest) == 0 {
		return "", false
	}
	part, w.rest = w.rest[0], w.rest[1:]
	return part, true
}

// follow inserts the target of a symbolic link before the rest.
func (w *way) follow(link string) error {
	if path.IsAbs(link) {
		return ErrEscapes // its root could be the pod's or the node's
	}
	if w.links++; w.links > mostLinks {
		return errTooManyLinks
	}
	w.rest = slices.Concat(split(link), w.rest)
	return nil
}
