package mounting

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// newDirectories are a new directory and its new parents.
type newDirectories struct {
	mayWait  bool     // for the file system of the directories
	existing int      // the directory that holds the first of names
	names    []string // of the parents that may be missing, and of the directory
	created  int      // so many names, the last ones, are new
	parent   int      // the directory that was opened last; may be existing
	depth    int      // so many names lead from existing to parent
	mount    kernel.MountID
}

func newDirectoriesAt(existing int, mayWait bool) *newDirectories {
	return &newDirectories{existing: existing, parent: existing, mayWait: mayWait}
}

func (d *newDirectories) close() {
	d.ascend()
	kernel.Close(d.existing)
	d.existing, d.parent = -1, -1
}

// ascend closes all directories but existing.
func (d *newDirectories) ascend() {
	if d.depth > 0 {
		kernel.Close(d.parent)
	}
	d.parent, d.depth = d.existing, 0
}

// target returns the new directory as a target, whose descriptor stays d's.
func (d *newDirectories) target() target {
	return target{fd: d.parent, made: d.names[len(d.names)-1], dir: true, parent: -1, mount: d.mount}
}

// openExisting opens the deepest directory above name that the kernel has cached. It goes up from
// the parent of name to below at most, and not at all if below is no directory above the parent.
// It leaves the names that are missing, or exist uncached, to create.
func (d *newDirectories) openExisting(name, below string) (err error) {
	dir := name
	for {
		d.names = append(d.names, path.Base(dir))
		dir = path.Dir(dir)
		d.existing, err = kernel.OpenCachedOnce(unix.AT_FDCWD, dir, unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
		if err == nil {
			d.parent = d.existing
			slices.Reverse(d.names)
			return nil
		}
		if !kernel.IsUncached(err) && !errors.Is(err, unix.ENOENT) || !isBelow(dir, below) {
			return err
		}
	}
}

// targetIsCached reports whether the directory exists, as far as the kernel has cached it.
func (d *newDirectories) targetIsCached() bool {
	if len(d.names) > 1 {
		return false
	}
	fd, err := kernel.OpenCachedOnce(d.existing, d.names[0], 0, 0)
	if err != nil {
		return false
	}
	kernel.Close(fd)
	return true
}

// isBelow reports whether a clean absolute path is strictly below a directory.
func isBelow(name, dir string) bool {
	dir = strings.TrimSuffix(path.Clean(dir), "/")
	return strings.HasPrefix(name, dir+"/") && len(name) > len(dir)+1
}

// create creates the directories. The last one must be new. After an error the names are those of
// the directories that exist.
func (d *newDirectories) create(perm uint32) error {
	for i, name := range d.names {
		err := unix.Mkdirat(d.parent, name, perm)
		last := i == len(d.names)-1
		switch {
		case err == nil:
			d.created++
		case last || !errors.Is(err, unix.EEXIST):
			d.names = d.names[:i]
			return err
		default: // it was uncached, or is another process's: it stays, with those above it
			d.created = 0
		}
		if last {
			return nil
		}
		if err := d.enter(name); err != nil {
			d.names = d.names[:i+1]
			return err
		}
	}
	return nil
}

// enter opens the directory of some names below the last opened one, on the same mount. The kernel
// has cached a new directory, but not one that triggers an automount.
func (d *newDirectories) enter(names ...string) error {
	const resolve = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH
	name := path.Join(names...)
	next, err := kernel.OpenCached(d.parent, name, unix.O_DIRECTORY, resolve)
	if kernel.IsUncached(err) {
		if !d.mayWait {
			return failure.ErrWouldWait
		}
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolve}
		next, err = kernel.RetryOpen(func() (int, error) { return unix.Openat2(d.parent, name, &how) })
	}
	if err != nil {
		return err
	}
	depth := d.depth + len(names)
	d.ascend()
	d.parent, d.depth = next, depth
	return nil
}

// remove removes the new directories after an error, the last one first. It returns an error only
// if the last one may still have the mount, or if one could not be removed. A directory that
// another process uses stays, with those above it.
func (d *newDirectories) remove(err error) error {
	if errors.Is(err, failure.ErrUncertain) {
		return err
	}
	d.mayWait = true // a new directory triggers no automount, so nothing waits
	for ; d.created > 0; d.created-- {
		switch remove := d.removeLast(); {
		case remove == nil, errors.Is(remove, unix.ENOENT):
		case slices.ContainsFunc(othersWork, func(errno unix.Errno) bool { return errors.Is(remove, errno) }):
			return nil
		default:
			return failure.AsUncertain(fmt.Errorf("%w (removing the directory: %w)", err, remove))
		}
	}
	return nil
}

// othersWork are errors of the removal of a new directory that another process uses, or has
// replaced.
var othersWork = []unix.Errno{unix.EBUSY, unix.ENOTEMPTY, unix.ENOTDIR, unix.EXDEV, unix.ELOOP}

// removeLast removes the directory of the last name that is left.
func (d *newDirectories) removeLast() error {
	parents, name := d.names[:len(d.names)-1], d.names[len(d.names)-1]
	d.names = parents
	if d.depth != len(parents) {
		d.ascend()
		if len(parents) > 0 {
			if err := d.enter(parents...); err != nil {
				return err
			}
		}
	}
	return unix.Unlinkat(d.parent, name, unix.AT_REMOVEDIR)
}
