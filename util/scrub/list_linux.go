package scrub

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// An entry is one of a directory.
type entry struct {
	name string
	kind uint8 // unix.DT_*
	next int64 // where in the directory the next one is
}

// A listing is the part of a directory that has been read and not been dealt with yet.
type listing struct {
	buf  []byte
	rest []byte // of buf
}

const listSize = 32 << 10

// refill reads on, and reports whether there was more. It is the end of a directory
// that somebody has removed, too.
func (l *listing) refill(fd int) (more bool, err error) {
	if l.buf == nil {
		l.buf = make([]byte, listSize)
	}
	n, err := again(func() (int, error) { return unix.ReadDirent(fd, l.buf) })
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	l.rest = l.buf[:max(n, 0)]
	return n > 0, err
}

// take returns the next entry but "." and "..", until there is none. See
// struct linux_dirent64 in getdents64(2).
func (l *listing) take() (e entry, ok bool) {
	for len(l.rest) > 0 {
		e, l.rest = parse(l.rest)
		if e.name != "." && e.name != ".." {
			return e, true
		}
	}
	return entry{}, false
}

func parse(buf []byte) (entry, []byte) {
	const offset, length, kind, name = 8, 16, 18, 19
	size := binary.NativeEndian.Uint16(buf[length:])
	text, _, _ := bytes.Cut(buf[name:size], []byte{0})
	return entry{
		name: string(text),
		kind: buf[kind],
		next: int64(binary.NativeEndian.Uint64(buf[offset:])),
	}, buf[size:]
}

// hasDirectory reports whether there is a directory in what is left.
func (l *listing) hasDirectory() bool {
	for rest := *l; ; {
		e, ok := rest.take()
		if !ok || e.kind == unix.DT_DIR {
			return ok
		}
	}
}
