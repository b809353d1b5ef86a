package diskprobe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Sizes of the parts of a disk that are read; a small disk is read completely.
const (
	headSize = 2 << 20
	tailSize = 1 << 20
)

// A disk has the parts that were read.
type disk struct {
	size       int64
	head, tail []byte
}

func read(r io.ReaderAt, size int64) (disk, error) {
	if size < 0 {
		return disk{}, fmt.Errorf("a disk of %d bytes", size)
	}
	d := disk{size: size, head: make([]byte, min(size, headSize))}
	d.tail = make([]byte, min(size-int64(len(d.head)), tailSize))
	for _, part := range []struct {
		into []byte
		at   int64
	}{{d.head, 0}, {d.tail, size - int64(len(d.tail))}} {
		n, err := r.ReadAt(part.into, part.at)
		if n < len(part.into) {
			if errors.Is(err, io.EOF) || err == nil {
				err = io.ErrUnexpectedEOF
			}
			return disk{}, fmt.Errorf("read %d bytes at %d: %w", len(part.into), part.at, err)
		}
	}
	return d, nil
}

// bytes returns n bytes at an offset, or nil if they were not read.
func (d disk) bytes(offset int64, n int) []byte {
	tail := d.size - int64(len(d.tail))
	switch end := offset + int64(n); {
	case offset < 0 || end > d.size:
		return nil
	case end <= int64(len(d.head)):
		return d.head[offset:end]
	case offset >= tail:
		return d.tail[offset-tail : end-tail]
	}
	return nil
}

func (d disk) has(offset int64, magic string) bool {
	found := d.bytes(offset, len(magic))
	return found != nil && string(found) == magic
}

// search returns the marks that the disk has.
func (d disk) search(marks []mark) []Found {
	var all []Found
	for _, m := range marks {
		for _, offset := range m.at {
			if offset < 0 {
				offset += d.size
			}
			if d.has(offset, m.magic) {
				all = append(all, Found{Name: m.name, Kind: m.kind, Offset: offset})
			}
		}
	}
	return all
}

// data returns the first byte that is not zero.
func (d disk) data() []Found {
	for _, part := range []struct {
		of []byte
		at int64
	}{{d.head, 0}, {d.tail, d.size - int64(len(d.tail))}} {
		if i := firstByte(part.of); i >= 0 {
			return []Found{{Name: "data", Kind: Data, Offset: part.at + int64(i)}}
		}
	}
	return nil
}

// firstByte returns the index of the first byte that is not zero, or -1.
func firstByte(of []byte) int {
	return bytes.IndexFunc(of, func(r rune) bool { return r != 0 })
}
