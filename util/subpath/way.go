package subpath

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// A way is what is left of a path, component by component.
type way struct {
	rest  []string
	links int // followed so far
}

// maxDepth is how deep a path may lead. All directories on the way are open.
const maxDepth = 256

// mostLinks is how many symbolic links are followed, as in Linux.
const mostLinks = 40

var errTooManyLinks = errors.New("too many symbolic links")

func newWay(p string) way { return way{rest: split(p)} }

// split leaves out what leads nowhere else.
func split(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(part string) bool { return part == "" || part == "." })
}

// next returns the next component; ".." is one.
func (w *way) next() (part string, ok bool) {
	if len(w.rest) == 0 {
		return "", false
	}
	part, w.rest = w.rest[0], w.rest[1:]
	return part, true
}

// follow goes where a symbolic link says before the rest.
func (w *way) follow(link string) error {
	if path.IsAbs(link) {
		return ErrEscapes // whose root it means cannot be known
	}
	if w.links++; w.links > mostLinks {
		return errTooManyLinks
	}
	w.rest = slices.Concat(split(link), w.rest)
	return nil
}
