package beneath

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// An Entry is one of a directory.
type Entry struct {
	Name string
	Kind uint8 // unix.DT_*
	Next int64 // where in the directory the next one is
}

// A Listing is the part of a directory that has been read and not been dealt with yet.
type Listing struct {
	buf  []byte
	rest []byte // of buf
}

const listSize = 32 << 10

// Where a struct linux_dirent64 has what, see getdents64(2).
const nextAt, lengthAt, kindAt, nameAt = 8, 16, 18, 19

// Refill reads on, and reports whether there was more. A directory that somebody has
// removed is at its end, too.
func (l *Listing) Refill(fd int) (more bool, err error) {
	if l.buf == nil {
		l.buf = make([]byte, listSize)
	}
	n, err := Again(func() (int, error) { return unix.ReadDirent(fd, l.buf) })
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	l.rest = l.buf[:max(n, 0)]
	return n > 0, err
}

// Take returns the next entry but "." and "..", until there is none.
func (l *Listing) Take() (e Entry, ok bool) {
	for len(l.rest) > 0 {
		e, l.rest = parse(l.rest)
		if e.Name != "." && e.Name != ".." {
			return e, true
		}
	}
	return Entry{}, false
}

func parse(buf []byte) (Entry, []byte) {
	size := sizeOf(buf)
	text, _, _ := bytes.Cut(buf[nameAt:size], []byte{0})
	return Entry{
		Name: string(text),
		Kind: buf[kindAt],
		Next: placeBehind(buf),
	}, buf[size:]
}

func placeBehind(buf []byte) int64 { return int64(binary.NativeEndian.Uint64(buf[nextAt:])) }

func sizeOf(buf []byte) int { return int(binary.NativeEndian.Uint16(buf[lengthAt:])) }

// Bytes is how long what is left is, names and all.
func (l *Listing) Bytes() int { return len(l.rest) }

// HasDirectory reports whether there is a directory in what is left.
func (l *Listing) HasDirectory() bool {
	for rest := *l; ; {
		e, ok := rest.Take()
		if !ok || e.Kind == unix.DT_DIR {
			return ok
		}
	}
}

// halve takes the first half of the entries away, and says where the others begin.
func (l *Listing) halve() (half Listing, next int64) {
	count := 0
	for rest := l.rest; len(rest) > 0; rest = rest[sizeOf(rest):] {
		count++
	}
	end := 0
	for range (count + 1) / 2 {
		next = placeBehind(l.rest[end:])
		end += sizeOf(l.rest[end:])
	}
	half.rest = bytes.Clone(l.rest[:end])
	l.rest = l.rest[end:]
	return half, next
}
