package beneath

import (
	"cmp"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// An Order sorts directory entries by inode, which is the order on disk, and mostly in
// memory, too. It is used by one worker.
type Order struct {
	run    []numbered
	sorted []byte
}

type numbered struct {
	inode uint64
	entry []byte // including its header
}

// Sort sorts the entries of a listing that was read from the offset from. Directories keep
// their places, and only entries between two of them are exchanged: a walk that descends
// into a directory has handled all entries before it, and continues after it.
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

// sort sorts entries that are not directories. The last of them gets the offset of their
// end, and the others the offset of their beginning.
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
