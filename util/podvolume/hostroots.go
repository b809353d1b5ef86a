package podvolume

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/unmounting"
	"github.com/volumekit/volumekit/util/keylock"
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

// resolving are the paths whose file systems are queried.
var resolving keylock.Map

// ResolveLinks returns the path without symbolic links, as [filepath.EvalSymlinks] does.
// If ctx ends before a file system on the way has answered, the error wraps ctx.Err() and
// the cause.
func ResolveLinks(ctx context.Context, name string) (_ string, err error) {
	defer brief.Shorten(&err)
	const longest = 1 << 15 // more than any system takes; EvalSymlinks would be at it for long
	if len(name) > longest {
		return "", &fs.PathError{Op: "resolve", Path: name, Err: syscall.ENAMETOOLONG}
	}
	work := func() (string, error) { return filepath.EvalSymlinks(name) }
	resolved, _, err := keylock.Await(ctx, resolving.Key(name), ctxend.Kernel, work, nil)
	if err != nil && ctx.Err() != nil {
		err = &fs.PathError{Op: "resolve", Path: name, Err: err}
	}
	return resolved, err
}

// NewHostRoots resolves the paths, which exist and are absolute. The directories of the
// host's own, [volume.VolumeHost] OwnDirs, are no volumes: a root that is one of
// them, or in one, is an error. A host that is nil or has no root is refused with a
// [*field.Error].
func NewHostRoots(ctx context.Context, host volume.VolumeHost, declared []string) (_ *HostRoots, err error) {
	defer brief.Shorten(&err)
	if unmounting.IsNil(host) || host.Root() == "" {
		return nil, errNoHost
	}
	r := &HostRoots{own: host.OwnDirs()}
	for i, dir := range declared {
		if !path.IsAbs(dir) {
			return nil, fmt.Errorf("root %d %q: the path must be absolute", i, dir)
		}
		resolved, err := ResolveLinks(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("root %d: %w", i, err)
		}
		for _, own := range r.own {
			if isAtOrBelow(own, resolved) {
				return nil, fmt.Errorf("root %d %q: %s is in %s, a directory of the pods' volumes", i, dir, resolved, own)
			}
		}
		r.roots = append(r.roots, hostRoot{path.Clean(dir), resolved})
	}
	return r, nil
}

// Find returns the path to use for a path as the field has it, and the
// root that it is at or below, both without the symbolic links on the way to the root;
// of roots that are in one another the innermost counts. It looks at the text alone:
// that no link leads elsewhere below the root is to be seen in the moment when the path
// is opened. A path that is not below a root, or that is in, or leads to, one of the
// host's own directories, is a [*field.Error].
func (r *HostRoots) Find(at *field.Path, written string) (source, root string, err error) {
	switch {
	case written == "":
		return "", "", field.Required(at, "a volume needs a path")
	case strings.ContainsRune(written, 0):
		return "", "", volume.Invalid(at, written, "must not contain NUL")
	case !path.IsAbs(written):
		return "", "", volume.Invalid(at, written, "the path must be absolute")
	case slices.Contains(strings.Split(written, "/"), ".."):
		return "", "", volume.Invalid(at, written, `the path must not contain ".."`)
	case isPathTooLong(written):
		return "", "", volume.Invalid(at, written, pathTooLong)
	}
	source, in, ok := r.replaceRoot(path.Clean(written), func(h hostRoot) (from, to string) { return h.declared, h.resolved })
	if !ok {
		return "", "", volume.Invalid(at, written, "must be below one of the plugin's roots")
	}
	if own := r.isOwn(source); own != "" {
		return "", "", volume.Invalid(at, written, "the path is in, or leads to, "+own+", a directory of the pods' volumes")
	}
	return source, in.resolved, nil
}

// Containing returns the root that a path without symbolic links, as a descriptor's, is
// at or below; of roots that are in one another the innermost. It is not ok for a path
// that is not below a root, or that is in, or leads to, one of the host's own directories.
func (r *HostRoots) Containing(source string) (root string, ok bool) {
	_, in, ok := r.replaceRoot(path.Clean(source), func(h hostRoot) (from, to string) { return h.resolved, h.resolved })
	if !ok || r.isOwn(source) != "" {
		return "", false
	}
	return in.resolved, true
}

// IsBelow reports whether a path without symbolic links is at or below a root, and not in
// one of the host's own directories. It may lead to one.
func (r *HostRoots) IsBelow(source string) bool {
	_, _, ok := r.replaceRoot(path.Clean(source), func(h hostRoot) (from, to string) { return h.resolved, h.resolved })
	return ok && !slices.ContainsFunc(r.own, func(own string) bool { return isAtOrBelow(own, source) })
}

// isOwn returns the host's own directory that a path is in or leads to.
func (r *HostRoots) isOwn(source string) string {
	for _, own := range r.own {
		if isAtOrBelow(own, source) || isAtOrBelow(source, own) {
			return own
		}
	}
	return ""
}

// Written undoes Find: the path as a specification has it.
func (r *HostRoots) Written(source string) (string, bool) {
	written, _, ok := r.replaceRoot(source, func(h hostRoot) (from, to string) { return h.resolved, h.declared })
	if !ok {
		return "", false
	}
	again, _, err := r.Find(field.NewPath("path"), written)
	return written, err == nil && again == source
}

// replaceRoot exchanges the part of a path that the innermost of the roots has in common
// with it.
func (r *HostRoots) replaceRoot(name string, by func(hostRoot) (from, to string)) (replaced string, in hostRoot, ok bool) {
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

// The limits of Linux. A longer path is refused before the directories above it are made.
const longestPath, longestName = 4095, 255

const pathTooLong = "must be at most 4095 bytes, and 255 in a component"

func isPathTooLong(name string) bool {
	return len(name) > longestPath || slices.ContainsFunc(strings.Split(name, "/"), func(component string) bool { return len(component) > longestName })
}

func isAtOrBelow(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
