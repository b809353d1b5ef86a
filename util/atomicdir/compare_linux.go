package atomicdir

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// isAsAsked reports whether a set is there and just as it would be written. What it
// cannot read is not.
func (w *writer) isAsAsked(set string) bool {
	if !setName.MatchString(set) {
		return false
	}
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

// isDirectory reports whether a directory has what it should have, and nothing else.
func (w *writer) isDirectory(set int, d directory) bool {
	fd, err := w.enter(set, d.path, toList)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer func() { _ = f.Close() }()
	if !w.isGiven(fd, uint32(unix.S_IFDIR|w.o.dirMode().Perm()), File{}) || !hasEntries(f, len(d.files)+len(d.dirs)) {
		return false
	}
	for _, base := range d.files {
		if !w.isFile(fd, base, w.files[path.Join(d.path, base)]) {
			return false
		}
	}
	return true
}

// hasEntries reads no more names than it has to: others may have made any number.
func hasEntries(dir *os.File, n int) bool {
	names, err := dir.Readdirnames(n + 1)
	return err == nil && len(names) == n || n == 0 && errors.Is(err, io.EOF)
}

// isFile opens nothing before it has seen that it is a plain file: opening a device has
// effects of its own.
func (w *writer) isFile(dir int, name string, want File) bool {
	fd, err := w.enter(dir, name, toLook)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	if !w.isGiven(fd, uint32(unix.S_IFREG|w.o.fileMode(want).Perm()), want) {
		return false
	}
	f, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return holds(f, want.Data)
}

// isGiven reports whether what is open has this type and these permissions and belongs
// to whom it should.
func (w *writer) isGiven(fd int, mode uint32, f File) bool {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil || s.Mode != mode {
		return false
	}
	uid, gid := w.o.owner(f)
	return s.Uid == uint32(uid) && s.Gid == uint32(gid)
}

// holds reads no more than it has to.
func holds(f *os.File, want []byte) bool {
	have := make([]byte, len(want)+1)
	n, err := io.ReadFull(f, have)
	return err != nil && n == len(want) && bytes.Equal(have[:n], want)
}
