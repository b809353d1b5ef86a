package diskprobe

import (
	"io"
	"slices"
)

// Probe returns what is on a disk of that size, in bytes, by offset; nothing if all
// that it reads is zero. Things that are there besides each other, such as a RAID
// made on top of an old file system, are all returned: which of them still counts
// it cannot know.
//
// Its error is the reader's, or io.ErrUnexpectedEOF if there is less to read than
// the size says. It is safe for concurrent use if the reader is.
func Probe(r io.ReaderAt, size int64) ([]Found, error) {
	d, err := read(r, size)
	if err != nil {
		return nil, err
	}
	found := d.search(marks)
	for _, look := range []func() []Found{d.ext, d.btrfs, d.raid, d.zfs} {
		found = append(found, look()...)
	}
	found = append(found, d.mbr(found)...)
	found = append(found, d.spareGPT(found)...)
	if len(found) == 0 {
		found = d.search(weak)
	}
	if len(found) == 0 {
		found = d.data()
	}
	for i := range found {
		if found[i].Name == "xfs" {
			found[i].UUID = uuid(d.bytes(32, 16))
		}
	}
	slices.SortStableFunc(found, func(a, b Found) int { return int(a.Offset - b.Offset) })
	return found, nil
}

// Only returns the one file system that is on a disk, if there is nothing else.
func Only(found []Found) (Found, bool) {
	if len(found) != 1 || found[0].Kind != FileSystem {
		return Found{}, false
	}
	return found[0], true
}
