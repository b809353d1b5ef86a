package atomicdir

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// isUnchanged reports whether a set exists and is exactly as it would be written. It returns
// false if the set cannot be read.
func (w *writer) isUnchanged(set string) bool {
	if !setName.MatchString(set) {
		return false
	}
	w.recorder = w.newRecorder(set)
	fd, err := w.enter(w.root, set, toList)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	for _, d := range w.dirs {
		if !w.isDirectory(fd, d) {
			return false
		}
	}
	return true
}

// isDirectory reports whether a directory has its expected entries, and no others.
func (w *writer) isDirectory(set int, d directory) bool {
	fd, done, err := w.enterIn(set, d.path)
	if err != nil {
		return false
	}
	defer done()
	is, given := w.hasModeAndOwner(fd, uint32(unix.S_IFDIR|w.o.dirMode().Perm()), File{})
	w.recorder.addDirectory(&is)
	if !given || !hasEntries(fd, len(d.files)+len(d.dirs)) {
		return false
	}
	for _, base := range d.files {
		if !w.isFile(fd, base, w.files[join(d.path, base)]) {
			return false
		}
	}
	return true
}

// hasEntries reports whether a directory has n entries. It stops at the first further one:
// other programs may have created any number.
func hasEntries(dir, n int) bool {
	var list beneath.Listing
	defer list.Free()
	for {
		more, err := list.Refill(dir)
		if err != nil || !more {
			return err == nil && n == 0
		}
		for _, ok := list.Take(); ok; _, ok = list.Take() {
			if n--; n < 0 {
				return false
			}
		}
	}
}

// isFile reports whether an entry is the wanted file. It opens the entry for reading only if
// it is a regular file: opening a device has side effects.
func (w *writer) isFile(dir int, name string, want File) bool {
	fd, err := w.enter(dir, name, toLook)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	is, given := w.hasModeAndOwner(fd, uint32(unix.S_IFREG|w.o.fileMode(want).Perm()), want)
	if !given || is.Size != int64(len(want.Data)) {
		return false
	}
	return w.hasContent(fd, &is, want.Data)
}

// hasModeAndOwner reports whether an open file has the expected type, permissions and owner, and
// returns its attributes. A directory may have set-group-ID, as those of the kubelet have for a
// pod with a group.
func (w *writer) hasModeAndOwner(fd int, mode uint32, f File) (is unix.Stat_t, given bool) {
	if err := unix.Fstat(fd, &is); err != nil {
		return is, false
	}
	if is.Mode != mode && (is.Mode&unix.S_IFMT != unix.S_IFDIR || is.Mode != mode|unix.S_ISGID) {
		return is, false
	}
	uid, gid := w.o.owner(f)
	return is, is.Uid == uint32(uid) && is.Gid == uint32(gid)
}

// hasContent reports whether the regular file of an O_PATH descriptor, whose size is that of the
// data, contains the data.
func (w *writer) hasContent(fd int, is *unix.Stat_t, want []byte) bool {
	if len(want) == 0 {
		w.recorder.addFile(-1, is)
		return true
	}
	open, err := beneath.RetryInterrupted(func() (int, error) {
		return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), toRead, 0)
	})
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(open) }()
	w.recorder.addFile(open, is)
	return w.hasBytes(open, want)
}

// toRead opens a regular file. It does not wait for another process that has a lease on the file
// for writing, but fails.
const toRead = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC

// hasBytes reports whether the beginning of an open file is the data.
func (w *writer) hasBytes(fd int, want []byte) bool {
	w.buffer = slices.Grow(w.buffer[:0], len(want))
	have := w.buffer[:len(want)]
	for at := 0; at < len(have); {
		n, err := beneath.RetryInterrupted(func() (int, error) { return unix.Pread(fd, have[at:], int64(at)) })
		if n == 0 || err != nil {
			return false
		}
		at += n
	}
	return bytes.Equal(have, want)
}
