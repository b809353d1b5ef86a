package diskprobe

import (
	"io"
	"slices"
)

// Probe returns the content of a disk of the given size in bytes, sorted by offset, or
// nothing if all bytes that it reads are zero. It returns every content that it detects,
// such as a RAID created over an old file system: it cannot decide which one still counts.
//
// Its error is the reader's, or io.ErrUnexpectedEOF if the reader has less than size bytes.
// Probe waits as long as the reader does: callers with a device that may not answer run it
// in a goroutine ([ctxend.Await]). It is safe for concurrent use if the reader is.
//
// [ctxend.Await]: https://pkg.go.dev/github.com/volumekit/volumekit/util/ctxend#Await
func Probe(r io.ReaderAt, size int64) ([]Found, error) {
	d, err := read(r, size)
	if err != nil {
		return nil, err
	}
	found := d.search(marks)
	for _, search := range []func() []Found{d.ext, d.btrfs, d.raid, d.zfs} {
		found = append(found, search()...)
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
			found[i].UUID, found[i].Size = uuid(d.bytes(32, 16)), d.xfsSize()
		}
	}
	slices.SortStableFunc(found, func(a, b Found) int { return int(a.Offset - b.Offset) })
	return found, nil
}

// Only returns the file system of a disk that has no other content.
func Only(found []Found) (Found, bool) {
	if len(found) != 1 || found[0].Kind != FileSystem {
		return Found{}, false
	}
	return found[0], true
}
