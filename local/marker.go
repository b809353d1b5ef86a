package local

import (
	"bytes"
	"errors"
	"io"

	"github.com/volumekit/volumekit/util/diskprobe"
)

// A marker is in the first sector of a disk from before it is formatted until the file
// system is there: what else is on the disk then can only be what formatting has left.
// Whoever uses the disk for something else overwrites it.
//
// mkfs.ext4 leaves the sector alone, because it has the magic number of a BSD disk label
// where that has it, and if it is told not to discard. The others overwrite it with
// zeros, and soon after that with their superblock.
const markerSize = 512

func markerOf(uuid string) []byte {
	b := make([]byte, markerSize)
	copy(b, "volumekit formats "+uuid)
	copy(b[64:], "\x57\x45\x56\x82")
	return b
}

// isMarked reports whether the file system of that UUID is being made on the disk.
func isMarked(d io.ReaderAt, uuid string) (bool, error) {
	there := make([]byte, markerSize)
	if _, err := d.ReadAt(there, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.Equal(there, markerOf(uuid)), nil
}

// unmark removes the marker, if it is there.
func unmark(d disk, uuid string) error {
	marked, err := isMarked(d, uuid)
	if err != nil || !marked {
		return err
	}
	return d.mark(make([]byte, markerSize))
}

// probe returns what is on the disk besides the marker of the file system of that UUID.
func probe(d disk, uuid string) (found []diskprobe.Found, marked bool, err error) {
	var rest io.ReaderAt = d
	if marked, err = isMarked(d, uuid); marked {
		rest = hidden{d}
	}
	if err != nil {
		return nil, false, err
	}
	found, err = diskprobe.Probe(rest, d.facts().size)
	return found, marked, err
}

// theMarker is what the marker is to those to whom it says nothing.
var theMarker = diskprobe.Found{Name: "data", Kind: diskprobe.Data}

// A hidden disk is one whose first sector reads as zeros.
type hidden struct{ io.ReaderAt }

// ReadAt implements io.ReaderAt.
func (h hidden) ReadAt(into []byte, at int64) (int, error) {
	n, err := h.ReaderAt.ReadAt(into, at)
	if at < markerSize {
		clear(into[:min(int64(n), markerSize-at)])
	}
	return n, err
}
