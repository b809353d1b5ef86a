package mounttest

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount/internal/failure"
)

// A spot is the end of a path.
type spot struct {
	path string     // the path, as it is written
	in   *fakeMount // the mount that it ends in
	root string     // the path inside the mounted file system
	real string     // the path in the real file system; empty in one that is fake
	mode fs.FileMode
}

func (s spot) isMountPoint() bool { return s.path == s.in.Mountpoint }

func (s spot) isLink() bool { return s.mode&fs.ModeSymlink != 0 }

// errLink ends a walk at a symbolic link before the end of the path.
var errLink = failure.ErrLink

// lookup returns the spot of a clean path. A symbolic link on the way is refused; the spot
// itself may be one.
func (f *Fake) lookup(p string) (spot, error) {
	at, _, err := f.walk(p)
	return at, err
}

// find returns the spot for a query: it follows symbolic links on the way.
func (f *Fake) find(p string) (spot, error) {
	if p == "/" {
		return f.lookup(p)
	}
	dir, _, err := f.follow(path.Dir(p))
	if err != nil {
		return dir, err
	}
	return f.lookup(path.Join(dir.path, path.Base(p)))
}

// walk walks a clean path. If it fails, it returns the spot where it stopped and the rest of
// the path.
func (f *Fake) walk(p string) (at spot, rest string, err error) {
	at = f.topSpot(&fakeMount{}, "/")
	rest = strings.TrimPrefix(p, "/")
	for rest != "" {
		name, after, _ := strings.Cut(rest, "/")
		next, err := f.step(at, name)
		if err != nil {
			return at, rest, err
		}
		at, rest = next, after
	}
	return at, "", nil
}

// step walks from a directory to an entry.
func (f *Fake) step(at spot, name string) (spot, error) {
	if at.isLink() {
		return spot{}, errLink
	}
	if !at.mode.IsDir() {
		return spot{}, syscall.ENOTDIR
	}
	if f.hangs(at.in.FSType, at.in.Mountpoint) {
		return spot{}, errHangs
	}
	next := path.Join(at.path, name)
	if f.kernel.mountAt(at.in.ID, next) != nil {
		return f.topSpot(at.in, next), nil
	}
	if at.real == "" {
		return spot{}, syscall.ENOENT
	}
	mode, err := f.fileType(next, path.Join(at.real, name))
	return spot{next, at.in, path.Join(at.root, name), path.Join(at.real, name), mode}, err
}

// topSpot returns the root of the uppermost mount at p in the mount in.
func (f *Fake) topSpot(in *fakeMount, p string) spot {
	for above := f.kernel.mountAt(in.ID, p); above != nil; above = f.kernel.mountAt(in.ID, p) {
		in = above
	}
	at := spot{path: p, in: in, root: in.Root, mode: fs.ModeDir}
	if in.isReal() && !in.Deleted {
		at.real = in.Root
	}
	if in.isFile {
		at.mode = 0
	}
	return at
}

// fileType returns the type of the real file, which the caller names p.
func (f *Fake) fileType(p, real string) (fs.FileMode, error) {
	stat := f.kernel.files.Lstat
	if f.trusted == p || strings.HasPrefix(f.trusted, p+"/") {
		stat = func(name string) (fs.FileInfo, error) { return os.Stat(tablepath.Native(name)) }
	}
	info, err := stat(real)
	if err != nil {
		return 0, withoutPath(err)
	}
	return info.Mode().Type(), nil
}

// withoutPath removes the operation and path from an error of package os; the caller adds its
// own.
func withoutPath(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
