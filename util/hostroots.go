package util

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// HostRoots are the paths of a node at and below which volumes may be that are written
// as paths of the node. The zero value allows none.
type HostRoots struct {
	roots []hostRoot
	own   []string
}

type hostRoot struct {
	declared string // as the embedder and the volumes call it
	resolved string // without symbolic links
}

// NewHostRoots resolves the paths, which exist and are absolute. The directories of the
// host's own, [volume.VolumeHost] OwnDirs, are nobody's volume: a root that is one of
// them, or in one, is an error.
func NewHostRoots(host volume.VolumeHost, declared []string) (*HostRoots, error) {
	r := &HostRoots{own: host.OwnDirs()}
	for i, dir := range declared {
		if !path.IsAbs(dir) {
			return nil, fmt.Errorf("root %d %q: the path must be absolute", i, dir)
		}
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, fmt.Errorf("root %d: %w", i, err)
		}
		for _, own := range r.own {
			if isAtOrBelow(own, resolved) {
				return nil, fmt.Errorf("root %d %q: %s is in %s, where the volumes of pods are", i, dir, resolved, own)
			}
		}
		r.roots = append(r.roots, hostRoot{path.Clean(dir), resolved})
	}
	return r, nil
}

// Find returns the path to use for a path that somebody wrote into the field, and the
// root that it is at or below, both without the symbolic links on the way to the root;
// of roots that are in one another the innermost counts. It looks at the text alone:
// that no link leads elsewhere below the root is to be seen in the moment when the path
// is opened. A path that is not below a root, or that is in, or leads to, one of the
// host's own directories, is a [*field.Error].
func (r *HostRoots) Find(at *field.Path, written string) (source, root string, err error) {
	switch {
	case written == "":
		return "", "", field.Required(at, "the volume has a path")
	case strings.ContainsRune(written, 0):
		return "", "", volume.Invalid(at, written, "a path holds no NUL")
	case !path.IsAbs(written):
		return "", "", volume.Invalid(at, written, "the path must be absolute")
	case slices.Contains(strings.Split(written, "/"), ".."):
		return "", "", volume.Invalid(at, written, `the path must not contain ".."`)
	case len(written) > longestPath || slices.ContainsFunc(strings.Split(written, "/"), isTooLong):
		return "", "", volume.Invalid(at, written, "longer than 4095 bytes, or 255 in a component")
	}
	source, in, ok := r.replace(path.Clean(written), func(h hostRoot) (from, to string) { return h.declared, h.resolved })
	if !ok {
		return "", "", volume.Invalid(at, written, "the path is not below one of the directories where such volumes may be")
	}
	for _, own := range r.own {
		if isAtOrBelow(own, source) || isAtOrBelow(source, own) {
			return "", "", volume.Invalid(at, written, "the path is in, or leads to, "+own+", where the volumes of pods are")
		}
	}
	return source, in.resolved, nil
}

// Written undoes Find: the path as a specification has it.
func (r *HostRoots) Written(source string) (string, bool) {
	written, _, ok := r.replace(source, func(h hostRoot) (from, to string) { return h.resolved, h.declared })
	if !ok {
		return "", false
	}
	again, _, err := r.Find(field.NewPath("path"), written)
	return written, err == nil && again == source
}

// replace exchanges the part of a path that the innermost of the roots has in common
// with it.
func (r *HostRoots) replace(name string, by func(hostRoot) (from, to string)) (replaced string, in hostRoot, ok bool) {
	if r == nil {
		return "", hostRoot{}, false
	}
	longest := ""
	for _, root := range r.roots {
		from, to := by(root)
		if isAtOrBelow(from, name) && len(from) > len(longest) {
			longest, in = from, root
			replaced = path.Join(to, strings.TrimPrefix(name, from))
		}
	}
	return replaced, in, longest != ""
}

// What Linux allows. What is longer is refused before the directories above it are made.
const longestPath, longestName = 4095, 255

func isTooLong(component string) bool { return len(component) > longestName }

func isAtOrBelow(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
