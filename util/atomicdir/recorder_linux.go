package atomicdir

import (
	"time"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// Tests replace these.
var (
	openByHandle = unix.OpenByHandleAt
	// settling is the age from which a time of the last change is unique: file systems round
	// times, and a second change within the same tick leaves the time as it is.
	settling = 2 * time.Second
	now      = time.Now
)

// A recorder collects the stamps of a set while isUnchanged reads it.
type recorder struct {
	record
	before  time.Time // any later change has a later time
	invalid bool      // a stamp is unreliable
	mapped  bool      // memory mappings change files without a new time
}

// newRecorder returns a recorder of a set, or nil if the directory has changed too recently, or
// if the file system's times are not known to be reliable: a server may return any.
func (w *writer) newRecorder(set string) *recorder {
	r := &recorder{
		record: record{content: w.content, set: set, mount: w.mount, root: w.rootStamp},
		before: w.begun.Add(-settling),
	}
	if len(w.o.MountPoints) > 0 || !r.isSettled(w.rootStamp) {
		return nil
	}
	var s unix.Statfs_t
	_, err := beneath.RetryInterrupted(func() (int, error) { return 0, unix.Fstatfs(w.root, &s) })
	if err != nil {
		return nil
	}
	switch s.Type {
	case unix.TMPFS_MAGIC:
		r.mapped = true
		return r
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return r
	}
	return nil
}

func (r *recorder) isSettled(s stamp) bool {
	return time.Unix(s.seconds, int64(s.nanoseconds)).Before(r.before)
}

// addDirectory records a directory of the set, before its entries are compared.
func (r *recorder) addDirectory(is *unix.Stat_t) {
	if r == nil {
		return
	}
	s := stampOf(is)
	r.invalid = r.invalid || !r.isSettled(s)
	r.dirs = append(r.dirs, s)
}

// addFile records a file before its content is read. Fd is open for reading, or -1 for an empty
// file, which changes by system calls alone.
//
// A process that has a file open for writing may change it through a memory mapping without a
// new time: a set with such a file is not recorded. On tmpfs a process that opens the file
// later may as well: files are read each time.
func (r *recorder) addFile(fd int, is *unix.Stat_t) {
	if r == nil || r.invalid {
		return
	}
	f := file{stamp: stampOf(is)}
	switch empty := is.Size == 0; {
	case !r.isSettled(f.stamp):
		r.invalid = true
	case r.mapped && !empty:
		handle, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
		f.reader, r.invalid = &handle, err != nil
	case !empty:
		r.invalid = !isClosedForWriting(fd)
	}
	r.files = append(r.files, f)
}

// isClosedForWriting reports whether no process has a file open for writing: only then the
// kernel grants a lease for reading. Closing the descriptor ends the lease. Until then the
// kernel sends the signal if another process opens the file for writing; by default
// processes ignore SIGURG.
func isClosedForWriting(fd int) bool {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGURG)); err != nil {
		return false
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	return err == nil
}

func stampOf(is *unix.Stat_t) stamp {
	return stamp{is.Dev, is.Ino, int64(is.Ctim.Sec), uint32(is.Ctim.Nsec)}
}

// stampIn returns the stamp of an entry, or of the open directory if the name is "". It
// reports false for an entry of another mount.
func (w *writer) stampIn(dir int, name string) (s stamp, ok bool) {
	flags := beneath.Quiet
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var x unix.Statx_t
	if err := unix.Statx(dir, name, flags, stampMask, &x); err != nil || x.Mask&stampMask != stampMask {
		return stamp{}, false
	}
	return stampOfStatx(&x), x.Mnt_id == w.mount
}

const stampMask = unix.STATX_INO | unix.STATX_CTIME | unix.STATX_MNT_ID

func stampOfStatx(x *unix.Statx_t) stamp {
	return stamp{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino, x.Ctime.Sec, x.Ctime.Nsec}
}

// record records the set, which a Write has found unchanged. If the Write had to change links or
// to remove leftovers the record is of no use: the directory has another stamp by now.
func (w *writer) record() {
	if r := w.recorder; r != nil && !r.invalid {
		recorded.set(w.dir, &r.record)
	}
}

// isRecorded reports whether the directory is as a former Write has left and recorded it, with
// the same files.
func (w *writer) isRecorded() bool {
	is := recorded.get(w.dir)
	if is == nil || is.content != w.content || is.mount != w.mount || is.root != w.rootStamp {
		return false
	}
	set, err := w.enter(w.root, is.set, toList)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(set) }()
	files := is.files
	for i, d := range w.dirs {
		if !w.isRecordedDirectory(set, d, is.dirs[i], files[:len(d.files)]) {
			return false
		}
		files = files[len(d.files):]
	}
	return true
}

func (w *writer) isRecordedDirectory(set int, d directory, want stamp, files []file) bool {
	fd, done, err := w.enterIn(set, d.path)
	if err != nil {
		return false
	}
	defer done()
	if s, ok := w.stampIn(fd, ""); !ok || s != want {
		return false
	}
	for i, base := range d.files {
		if s, ok := w.stampIn(fd, base); !ok || s != files[i].stamp {
			return false
		}
		if files[i].reader != nil && !w.readsSame(fd, base, files[i].reader, w.files[join(d.path, base)]) {
			return false
		}
	}
	return true
}

// readsSame reports whether a recorded file contains the data. Opening it by its handle takes no
// further lookup, and opens no other file; an unprivileged process opens it by its name.
func (w *writer) readsSame(dir int, name string, reader *unix.FileHandle, want File) bool {
	fd, err := openByHandle(dir, *reader, toRead)
	if err != nil {
		return w.isFile(dir, name, want)
	}
	defer func() { _ = unix.Close(fd) }()
	return w.hasBytes(fd, want.Data)
}
