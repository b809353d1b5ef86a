package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// A look asks the kernel about mounts, one by one, until its context ends.
type look struct {
	asker
	ctx context.Context
}

var looks = sync.Pool{New: func() any { return new(look) }}

func newLook(ctx context.Context) *look {
	l := looks.Get().(*look)
	l.ctx = ctx
	return l
}

func (l *look) done() {
	l.ctx = nil
	looks.Put(l)
}

func (l *look) ask(id, mask uint64) (facts, error) {
	if l.ctx.Err() != nil {
		return facts{}, ctxend.Error(l.ctx)
	}
	return l.asker.ask(id, mask)
}

// content returns what is at a path in a mount: the file system, and where in it.
func (l *look) content(in uint64, where string) (device, string, error) {
	f, err := l.ask(in, askDevice|askRoot|askPoint|askType|askSource)
	if err != nil {
		return device{}, "", err
	}
	whole, err := wholeRoot(f)
	if err != nil {
		return device{}, "", err
	}
	rest, ok := below(string(f.pointPath()), where)
	if !ok {
		return device{}, "", fmt.Errorf("mount %d is not in the table: %w", in, fs.ErrNotExist)
	}
	root, deleted := strings.CutSuffix(whole, deletedMark)
	if rest != "" {
		root = path.Join(root, rest)
	}
	if deleted {
		root += deletedMark
	}
	return f.device(), root, nil
}

// seen returns the mount point of a mount that shows what is at root and is
// visible, or nothing if it does not, is not, or is at the path itself.
func (l *look) seen(id uint64, root, at string) (point string, err error) {
	f, err := l.ask(id, askRoot|askPoint|askType|askSource)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	whole, err := wholeRoot(f)
	if err != nil || whole != root || string(f.pointPath()) == at || len(f.pointPath()) == 0 {
		return "", err
	}
	point = string(f.pointPath())
	if visible, err := l.visible(id, point); err != nil || !visible {
		return "", err
	}
	return point, nil
}

// wholeRoot returns what of the file system a mount shows, see rootOf. The source, which
// it takes for NFS, is told from Linux 6.13 on.
func wholeRoot(f facts) (string, error) {
	fsType := string(f.bytes(askType, f.fsType))
	if isNFS(fsType) && !f.has(askSource) {
		return "", fmt.Errorf("the directory of a mount of NFS: %w", errors.ErrUnsupported)
	}
	return rootOf(fsType, string(f.bytes(askSource, f.source)), string(f.rootPath())), nil
}

// errUnclear says that the path to a mount cannot be looked up at once.
var errUnclear = fmt.Errorf("what a lookup arrives at is not known: %w", errors.ErrUnsupported)

// visible reports whether looking up a mount's mount point arrives at it. If that
// cannot be looked up at once, the first directory above it that can be tells
// whether a lookup is led away before.
func (l *look) visible(id uint64, point string) (bool, error) {
	for dir := point; path.IsAbs(dir); dir = path.Dir(dir) {
		at, err := arrivesAt(dir)
		switch {
		case err == nil && dir == point:
			return at == id, nil
		case err == nil:
			above, err := l.above(id, dir)
			if err == nil && above == at {
				err = errUnclear
			}
			return false, err
		case dir == "/":
			return false, fmt.Errorf("%w: %w", errUnclear, err)
		}
	}
	return false, errUnclear
}

// above returns which mount dir, a directory above the mount, is to be in.
func (l *look) above(id uint64, dir string) (uint64, error) {
	for {
		f, err := l.ask(id, askMount|askPoint)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, errUnclear
		}
		if err != nil {
			return 0, err
		}
		if _, ok := below(string(f.pointPath()), dir); ok {
			return id, nil
		}
		id = f.parent
	}
}

// arrivesAt returns the mount that a lookup of the path arrives at, as far as the
// kernel can tell from its memory: no file system is asked (Linux 5.12). Mounts
// that come and go elsewhere can disturb it.
func arrivesAt(p string) (uint64, error) {
	fd, err := openCached(unix.AT_FDCWD, p, 0, unix.RESOLVE_NO_SYMLINKS)
	for tries := 0; errors.Is(err, unix.EAGAIN) && tries < 8; tries++ {
		fd, err = openCached(unix.AT_FDCWD, p, 0, unix.RESOLVE_NO_SYMLINKS)
	}
	if err != nil {
		return 0, err
	}
	defer closeFD(fd)
	return uniqueMount(fd)
}

// uniqueMount returns the unique id of the mount that fd is in (Linux 6.8).
func uniqueMount(fd int) (uint64, error) {
	var x unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|quiet, unix.STATX_MNT_ID_UNIQUE, &x)
	if err != nil {
		return 0, err
	}
	if x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return 0, errNoUniqueIDs
	}
	return x.Mnt_id, nil
}

var errNoUniqueIDs = fmt.Errorf("unique mount ids: %w", errors.ErrUnsupported)
