package mounttest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
)

// maxLinks is the number of symbolic links that Linux follows in a path.
const maxLinks = 40

// RealPath returns the file that a program would open by path: its path in the real file
// system, and whether it is read-only. It follows symbolic links, as the program would. Dry
// runs use it to apply to the real files the changes that a program makes through mounts.
//
// The last component may be missing: real is where it would be created. Any
// other missing path is an error that wraps fs.ErrNotExist, and so is one in a
// file system that the Fake has mounted, which has no real files.
func (f *Fake) RealPath(p string) (real string, readOnly bool, err error) {
	if err := checkPath(tablepath.Of(p)); err != nil {
		return "", false, err
	}
	var at spot
	err = f.withLock(func() error {
		found, rest, err := f.follow(path.Clean(tablepath.Of(p)))
		at, err = spotToCreate(found, rest, err)
		readOnly = err == nil && isReadOnly(at.in)
		return err
	})
	if err == nil && at.real == "" {
		err = syscall.ENOENT
	}
	if err != nil {
		return "", false, &mount.Error{Op: "real path", Target: p, Err: err}
	}
	return tablepath.Native(at.real), readOnly, nil
}

// follow walks a path and follows its symbolic links.
func (f *Fake) follow(p string) (at spot, rest string, err error) {
	for range maxLinks {
		at, rest, err = f.walk(p)
		if !at.isLink() {
			return at, rest, err
		}
		if at.in.Flags&mount.NoSymFollow != 0 {
			break
		}
		target, err := f.kernel.files.Readlink(at.real)
		if err != nil {
			return at, rest, withoutPath(err)
		}
		if target = tablepath.Of(target); !path.IsAbs(target) {
			target = path.Join(path.Dir(at.path), target)
		}
		p = path.Join(target, rest)
	}
	return at, rest, syscall.ELOOP
}

// spotToCreate turns a walk that failed for want of the last component into the spot of a file
// that could be created.
func spotToCreate(at spot, rest string, err error) (spot, error) {
	if !errors.Is(err, fs.ErrNotExist) || at.real == "" || path.Base(rest) != rest {
		return at, err
	}
	return spot{path.Join(at.path, rest), at.in, path.Join(at.root, rest), path.Join(at.real, rest), 0}, nil
}

// isReadOnly reports whether the mount, or the file system in it, is read-only.
func isReadOnly(in *fakeMount) bool {
	return in.Flags&mount.ReadOnly != 0 || slices.Contains(in.SuperOptions, "ro")
}
