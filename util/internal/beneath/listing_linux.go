package beneath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// An Entry is a directory entry.
type Entry struct {
	Name string
	Kind uint8 // unix.DT_*
	Next int64 // offset of the next entry in the directory
}

// A Listing has the entries that were read from a directory and not yet returned by Take.
type Listing struct {
	buf  []byte
	rest []byte // of buf
}

const listSize = 32 << 10

// buffers has the buffers of freed listings.
var buffers = sync.Pool{New: func() any { return new([listSize]byte) }}

// Free returns the buffer to the pool, and empties the listing.
func (l *Listing) Free() {
	if l.buf != nil {
		buffers.Put((*[listSize]byte)(l.buf))
	}
	*l = Listing{}
}

// Offsets of the fields of struct linux_dirent64, see getdents64(2).
const nextAt, lengthAt, kindAt, nameAt = 8, 16, 18, 19

// Refill reads more entries, and reports whether there were any. A removed directory has no
// more.
func (l *Listing) Refill(fd int) (more bool, err error) {
	if l.buf == nil {
		l.buf = buffers.Get().(*[listSize]byte)[:]
	}
	n, err := RetryInterrupted(func() (int, error) { return unix.ReadDirent(fd, l.buf) })
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	l.rest = l.buf[:max(n, 0)]
	return n > 0, err
}

// Take returns the next entry and removes it from the listing. It skips "." and "..".
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

// Bytes returns the size of the unread entries in bytes.
func (l *Listing) Bytes() int { return len(l.rest) }

// HasDirectory reports whether the unread entries include a directory.
func (l *Listing) HasDirectory() bool {
	for rest := *l; ; {
		e, ok := rest.Take()
		if !ok || e.Kind == unix.DT_DIR {
			return ok
		}
	}
}

// halve removes and returns the first half of the entries, and the offset of the others.
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
