package atomicdir

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// A writer is one Write.
type writer struct {
	layout
	dir   string
	root  int // the directory, open
	mount uint64
	o     Options
	syncs bool // what is written outlives the machine's next start

	unsynced []int // files, open
}

func write(ctx context.Context, dir string, l layout, o Options) (changed bool, err error) {
	w := &writer{layout: l, dir: dir, o: o}
	if w.root, w.mount, err = openRoot(dir); err != nil {
		return false, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(w.root) }()
	if w.syncs, err = outlives(w.root); err != nil {
		return false, w.failed("statfs", "", err)
	}
	current := linkAt(w.root, dataLink)
	if !w.isAsAsked(current) {
		next, err := w.prepare(ctx)
		if err != nil {
			return false, err
		}
		if err := w.point(dataLink, next, newDataLink); err != nil {
			return linkAt(w.root, dataLink) == next, err
		}
		changed, current = true, next
	}
	linked, err := w.link()
	if err == nil && (changed || linked) {
		err = w.sync(w.root, "")
	}
	if err != nil {
		return changed, err
	}
	return changed, w.tidy(ctx, current)
}

// outlives reports whether a file system has more than the machine's memory.
func outlives(fd int) (bool, error) {
	var s unix.Statfs_t
	_, err := beneath.Again(func() (int, error) { return 0, unix.Fstatfs(fd, &s) })
	return s.Type != unix.TMPFS_MAGIC && s.Type != unix.RAMFS_MAGIC, err
}

// prepare writes a new set, which nobody looks at yet, and returns its name. After an
// error nothing is left of it, as far as that can be.
func (w *writer) prepare(ctx context.Context) (name string, err error) {
	name, fd, err := w.newSet()
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err = w.fill(ctx, fd, name); err == nil {
		err = w.sync(w.root, "")
	}
	if err != nil {
		_ = w.clear(context.WithoutCancel(ctx), name) // the next Write comes by again
		return "", err
	}
	return name, nil
}

// newSet makes a directory with a name that is free. Until it is filled nobody else
// has a look, if not with the powers of root.
func (w *writer) newSet() (name string, fd int, err error) {
	for range tries {
		name = newSetName(time.Now())
		if err = unix.Mkdirat(w.root, name, 0o700); !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	if err != nil {
		return "", -1, w.failed("mkdir", name, err)
	}
	if fd, err = w.enter(w.root, name, toList); err != nil {
		_ = w.clear(context.Background(), name)
		return "", -1, w.failed("open", name, err)
	}
	return name, fd, nil
}

// fill writes all files of the set, and then gives the directories to whom they belong.
func (w *writer) fill(ctx context.Context, set int, name string) error {
	var err error
	for _, d := range w.dirs {
		if err == nil {
			err = w.fillDirectory(ctx, set, name, d)
		}
	}
	if err = w.syncFiles(err); err != nil {
		return w.failed("write", name, err)
	}
	for i := len(w.dirs) - 1; i >= 0; i-- {
		if err := w.finishDirectory(set, name, w.dirs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) fillDirectory(ctx context.Context, set int, name string, d directory) error {
	at := path.Join(name, d.path)
	fd, err := w.enter(set, d.path, toList)
	if err != nil {
		return w.failed("open", at, err)
	}
	defer func() { _ = unix.Close(fd) }()
	for _, sub := range d.dirs {
		if err := unix.Mkdirat(fd, sub, 0o700); err != nil {
			return w.failed("mkdir", path.Join(at, sub), err)
		}
	}
	for _, base := range d.files {
		if ctx.Err() != nil {
			return w.failed("write", "", context.Cause(ctx))
		}
		if err := w.writeFile(fd, base, w.files[path.Join(d.path, base)]); err != nil {
			return w.failed("write", path.Join(at, base), err)
		}
	}
	return nil
}

func (w *writer) finishDirectory(set int, name string, d directory) error {
	at := path.Join(name, d.path)
	fd, err := w.enter(set, d.path, toList)
	if err != nil {
		return w.failed("open", at, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := give(fd, w.o.dirMode(), File{}, w.o); err != nil {
		return w.failed("chmod", at, err)
	}
	return w.sync(fd, at)
}

// writeFile makes a file that was not there.
func (w *writer) writeFile(dir int, name string, f File) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := beneath.Again(func() (int, error) { return unix.Openat(dir, name, flags, 0o600) })
	if err != nil {
		return err
	}
	err = writeAll(fd, f.Data)
	if err == nil {
		err = give(fd, w.o.fileMode(f), f, w.o)
	}
	if err != nil || !w.syncs {
		return errors.Join(err, unix.Close(fd))
	}
	// A hint, so that what is synced soon is on its way already.
	_ = unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	if w.unsynced = append(w.unsynced, fd); len(w.unsynced) == batch {
		return w.syncFiles(nil)
	}
	return nil
}

// batch is how many files are synced together: a journal is written once for all.
const batch = 64

// syncFiles syncs what has been written, unless there was an error, and closes it.
func (w *writer) syncFiles(err error) error {
	for _, fd := range w.unsynced {
		if err == nil {
			err = unix.Fsync(fd)
		}
		err = errors.Join(err, unix.Close(fd))
	}
	w.unsynced = nil
	return err
}

func writeAll(fd int, data []byte) error {
	for at := 0; at < len(data); {
		n, err := beneath.Again(func() (int, error) { return unix.Pwrite(fd, data[at:], int64(at)) })
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// fchown is the one call that gives something away. Tests put another one here.
var fchown = unix.Fchown

// give sets owners first: the kernel takes permissions away from what changes hands. Of
// what is right already it changes nothing: a server may forbid that, too.
func give(fd int, mode fs.FileMode, f File, o Options) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return err
	}
	uid, gid := o.owner(f)
	if is.Uid != uint32(uid) || is.Gid != uint32(gid) {
		if err := fchown(fd, uid, gid); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, uint32(mode.Perm()))
}

func (w *writer) sync(fd int, name string) error {
	if !w.syncs {
		return nil
	}
	return w.failed("fsync", name, unix.Fsync(fd))
}

// failed says where in the directory an error is from.
func (w *writer) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: shorten(path.Join(w.dir, name)), Err: err}
}
