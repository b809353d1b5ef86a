package fsusage

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// An entry is one of a directory.
type entry struct {
	name string
	next int64 // where in the directory the next one is
}

// A listing is the part of a directory that has been read and not been counted yet.
type listing struct {
	buf  []byte
	rest []byte // of buf
}

// refill reads on, and reports whether there was more. A directory that somebody has
// removed has ended.
func (l *listing) refill(fd int) (more bool, err error) {
	if l.buf == nil {
		l.buf = make([]byte, 32<<10)
	}
	for range 1000 {
		n, err := unix.ReadDirent(fd, l.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		l.rest = l.buf[:max(n, 0)]
		return n > 0, err
	}
	return false, unix.EINTR
}

// take returns the next entry but "." and "..", until there is none. See struct
// linux_dirent64 in getdents64(2).
func (l *listing) take() (e entry, ok bool) {
	const offset, length, name = 8, 16, 19
	for len(l.rest) > 0 {
		size := binary.NativeEndian.Uint16(l.rest[length:])
		text, _, _ := bytes.Cut(l.rest[name:size], []byte{0})
		e = entry{string(text), int64(binary.NativeEndian.Uint64(l.rest[offset:]))}
		if l.rest = l.rest[size:]; e.name != "." && e.name != ".." {
			return e, true
		}
	}
	return entry{}, false
}
