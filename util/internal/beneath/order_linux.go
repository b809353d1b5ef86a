package beneath

import (
	"cmp"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// An Order brings what is read of directories into the order of inodes, which is that of
// the disk, and mostly of memory, too. It is one worker's.
type Order struct {
	run    []numbered
	sorted []byte
}

type numbered struct {
	inode uint64
	entry []byte // header and all
}

// Sort is of what has been read behind a place in the directory. Only entries between two
// directories change places: who goes down into one has dealt with all that was before
// it, and reads on behind it.
func (o *Order) Sort(l *Listing, from int64) {
	begin := 0
	for at, next := 0, 0; at < len(l.rest); at = next {
		next = at + sizeOf(l.rest[at:])
		if !mayBeDirectory(l.rest[at:]) {
			continue
		}
		o.sort(l.rest[begin:at], from)
		begin, from = next, placeBehind(l.rest[at:])
	}
	o.sort(l.rest[begin:], from)
}

// sort is of entries that are no directories. The place behind the last one is behind all
// of them, and behind the others is where they began.
func (o *Order) sort(entries []byte, from int64) {
	o.run, o.sorted = o.run[:0], o.sorted[:0]
	behind := from
	for rest := entries; len(rest) > 0; rest = rest[sizeOf(rest):] {
		behind = placeBehind(rest)
		o.run = append(o.run, numbered{binary.NativeEndian.Uint64(rest), rest[:sizeOf(rest)]})
	}
	slices.SortFunc(o.run, func(a, b numbered) int { return cmp.Compare(a.inode, b.inode) })
	for i, n := range o.run {
		place := from
		if i == len(o.run)-1 {
			place = behind
		}
		binary.NativeEndian.PutUint64(n.entry[nextAt:], uint64(place))
		o.sorted = append(o.sorted, n.entry...)
	}
	copy(entries, o.sorted)
}

func mayBeDirectory(entry []byte) bool {
	return entry[kindAt] == unix.DT_DIR || entry[kindAt] == unix.DT_UNKNOWN
}
