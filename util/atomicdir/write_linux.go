package atomicdir

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// A writer is the state of one Write.
type writer struct {
	layout
	dir   string
	root  int // the directory, open
	mount uint64
	o     Options
	fresh bool // the directory has no set yet
	syncs bool // the set is synced

	begun     time.Time
	rootStamp stamp     // of the directory when it was opened
	content   uint64    // the hash of the set
	recorder  *recorder // nil: record nothing

	unsynced []int  // open files to sync
	created  given  // the mode and owners of the first file, as the file system set them
	buffer   []byte // for comparing files
}

func write(ctx context.Context, dir string, l layout, o Options, c *commit) (changed bool, err error) {
	w := &writer{layout: l, dir: dir, o: o.withOwners(), begun: now()}
	if err := w.open(); err != nil {
		return false, w.wrapError("open", "", err)
	}
	defer func() { _ = unix.Close(w.root) }()
	w.content = w.hash(w.o)
	if w.isRecorded() {
		return false, nil
	}
	recorded.set(dir, nil)
	changed, err = w.write(ctx, c)
	if err == nil && !changed {
		w.record()
	}
	return changed, err
}

// write is a Write that has no record of the directory.
func (w *writer) write(ctx context.Context, c *commit) (changed bool, err error) {
	if w.syncs, err = w.mustSync(); err != nil {
		return false, w.wrapError("statfs", "", err)
	}
	current := linkAt(w.root, dataLink)
	w.fresh = current == ""
	if !w.isUnchanged(current) {
		next, err := w.prepare(ctx)
		if err != nil {
			return false, err
		}
		if ctx.Err() != nil || !c.begin() {
			_ = w.removeEntry(context.WithoutCancel(ctx), next)
			return false, w.wrapError("write", "", ctxend.Error(ctx))
		}
		if err := w.replaceByLink(w.root, dataLink, next, newDataLink); err != nil {
			return linkAt(w.root, dataLink) == next, err
		}
		changed, current = true, next
	}
	w.addLinks()
	shown, err := w.showView(ctx, w.root, w.seen)
	if err == nil && changed && !shown {
		err = w.sync(w.root, "")
	}
	if err != nil {
		return changed, err
	}
	return changed, w.removeLeftovers(ctx, current)
}

// mustSync reports whether the set must be synced: the options are durable, and the file
// system is not in memory.
func (w *writer) mustSync() (bool, error) {
	if !w.o.Durable {
		return false, nil
	}
	inMemory, err := isInMemory(w.root)
	return !inMemory, err
}

// Tests replace these.
var (
	isInMemory = hasMemoryFS
	fsync      = unix.Fsync
)

func hasMemoryFS(fd int) (bool, error) {
	var s unix.Statfs_t
	_, err := beneath.RetryInterrupted(func() (int, error) { return 0, unix.Fstatfs(fd, &s) })
	return s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC, err
}

// prepare writes a new set, which no link leads to yet, and returns its name. After an
// error it removes the set, if it can.
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
		_ = w.removeEntry(context.WithoutCancel(ctx), name) // if this fails, the next Write removes it
		return "", err
	}
	return name, nil
}

// newSet creates and opens a directory under a free name. Until it is filled only its owner
// and root can enter it.
func (w *writer) newSet() (name string, fd int, err error) {
	for range tries {
		name = newSetName(time.Now())
		if err = unix.Mkdirat(w.root, name, 0o700); !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	if err != nil {
		return "", -1, w.wrapError("mkdir", name, err)
	}
	if fd, err = w.enter(w.root, name, toList); err != nil {
		_ = w.removeEntry(context.Background(), name)
		return "", -1, w.wrapError("open", name, err)
	}
	return name, fd, nil
}

// fill writes all files of the set, and then sets the modes and owners of the directories.
func (w *writer) fill(ctx context.Context, set int, name string) error {
	var err error
	for _, d := range w.dirs {
		if err == nil {
			err = w.fillDirectory(ctx, set, name, d)
		}
	}
	if err = w.syncFiles(err); err != nil {
		return w.wrapError("write", name, err)
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
	fd, done, err := w.enterIn(set, d.path)
	if err != nil {
		return w.wrapError("open", at, err)
	}
	defer done()
	for _, sub := range d.dirs {
		if err := unix.Mkdirat(fd, sub, 0o700); err != nil {
			return w.wrapError("mkdir", path.Join(at, sub), err)
		}
	}
	for _, base := range d.files {
		if ctx.Err() != nil {
			return w.wrapError("write", "", context.Cause(ctx))
		}
		if err := w.writeFile(fd, base, w.files[join(d.path, base)]); err != nil {
			return w.wrapError("write", path.Join(at, base), err)
		}
	}
	return nil
}

func (w *writer) finishDirectory(set int, name string, d directory) error {
	at := path.Join(name, d.path)
	fd, done, err := w.enterIn(set, d.path)
	if err != nil {
		return w.wrapError("open", at, err)
	}
	defer done()
	if err := setModeAndOwner(fd, w.o.dirMode(), File{}, w.o); err != nil {
		return w.wrapError("chmod", at, err)
	}
	return w.sync(fd, at)
}

// writeFile creates a file. Until the set is complete its directory is closed to other
// users, for any permissions of the file.
func (w *writer) writeFile(dir int, name string, f File) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	mode := uint32(w.o.fileMode(f).Perm())
	fd, err := beneath.RetryInterrupted(func() (int, error) { return unix.Openat(dir, name, flags, mode) })
	if err != nil {
		return err
	}
	err = writeAll(fd, f.Data)
	if err == nil && !w.isCreated(f) {
		err = w.setAndRecordMode(fd, f)
	}
	if err != nil || !w.syncs {
		return errors.Join(err, unix.Close(fd))
	}
	// A hint to start writing now, as the file is synced soon.
	_ = unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	if w.unsynced = append(w.unsynced, fd); len(w.unsynced) == batch {
		return w.syncFiles(nil)
	}
	return nil
}

// given is the permissions and owners that a new file of the set got from the file system:
// they depend on the umask, and on the group and the ACL of the directories.
type given struct {
	known    bool
	mode     uint32
	uid, gid uint32
}

// isCreated reports whether a new file has the expected mode and owners without further
// calls: a file with the same requested mode as an earlier one gets the same mode from the
// umask. The directories of the set are alike, and closed to other users.
func (w *writer) isCreated(f File) bool {
	mode := w.o.fileMode(f)
	uid, gid := w.o.owner(f)
	g := w.created
	return g.known && g.mode == uint32(mode.Perm()) && g.uid == uint32(uid) && g.gid == uint32(gid)
}

// setAndRecordMode is setModeAndOwner, and records the mode and owners before it.
func (w *writer) setAndRecordMode(fd int, f File) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return err
	}
	w.created = given{known: true, mode: is.Mode &^ unix.S_IFMT, uid: is.Uid, gid: is.Gid}
	return setModeAndOwnerOf(fd, &is, w.o.fileMode(f), f, w.o)
}

// batch is the number of files that are synced together: a journal is written once for all.
const batch = 64

// syncFiles syncs the unsynced files, unless err is not nil, and closes them.
func (w *writer) syncFiles(err error) error {
	for _, fd := range w.unsynced {
		if err == nil {
			err = fsync(fd)
		}
		err = errors.Join(err, unix.Close(fd))
	}
	w.unsynced = nil
	return err
}

func writeAll(fd int, data []byte) error {
	for at := 0; at < len(data); {
		n, err := beneath.RetryInterrupted(func() (int, error) { return unix.Pwrite(fd, data[at:], int64(at)) })
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// fchown is the only call that changes owners. Tests replace it.
var fchown = unix.Fchown

// setModeAndOwner sets the owners before the mode: the kernel clears bits of the mode when the owner
// changes. It changes nothing that is right already, as a server may forbid even that.
func setModeAndOwner(fd int, mode fs.FileMode, f File, o Options) error {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return err
	}
	return setModeAndOwnerOf(fd, &is, mode, f, o)
}

func setModeAndOwnerOf(fd int, is *unix.Stat_t, mode fs.FileMode, f File, o Options) error {
	uid, gid := o.owner(f)
	given := is.Uid != uint32(uid) || is.Gid != uint32(gid)
	if given {
		if err := fchown(fd, uid, gid); err != nil {
			return beneath.NamePrivilege(beneath.NameUnmapped(err, int64(uid), int64(gid)), beneath.ToChown)
		}
	}
	if !given && is.Mode&^unix.S_IFMT == uint32(mode.Perm()) {
		return nil
	}
	return unix.Fchmod(fd, uint32(mode.Perm()))
}

func (w *writer) sync(fd int, name string) error {
	if !w.syncs {
		return nil
	}
	return w.wrapError("fsync", name, fsync(fd))
}

// wrapError wraps an error with the operation, the path in the directory, and a missing privilege.
func (w *writer) wrapError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: input.Shorten(path.Join(w.dir, name)), Err: beneath.NamePrivilege(err, beneath.ToChange)}
}
