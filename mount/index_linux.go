package mount

import (
	"maps"
	"slices"
)

// A device is a file system, as the mount table numbers them.
type device struct{ major, minor uint32 }

// An indexed is what stays the same as long as a mount exists. What else there is
// to know of it changes without a word: its paths when a directory above is renamed,
// its parent when something is mounted beneath it.
type indexed struct {
	device device
	source string
	// fickle: the source is what the file system makes of it at the moment.
	fickle bool
	// parent is the mount that it is attached in, and inside where in there, as of
	// when it was attached. Nothing tells of a directory that is renamed.
	parent uint64
	inside string
}

// An index finds mounts, named by their unique ids.
type index struct {
	mounts  map[uint64]indexed
	devices map[device]ids
	sources map[string]ids
	fickle  ids
	inside  map[uint64]*pathSet // where mounts are attached in each mount
	// sourced: the kernel tells sources; those of some mounts are empty.
	sourced bool
}

type ids map[uint64]struct{}

func newIndex() *index {
	return &index{
		mounts:  make(map[uint64]indexed),
		devices: make(map[device]ids),
		sources: make(map[string]ids),
		fickle:  make(ids),
		inside:  make(map[uint64]*pathSet),
	}
}

func (x *index) add(id uint64, m indexed) {
	x.remove(id)
	x.mounts[id] = m
	if x.inside[m.parent] == nil {
		x.inside[m.parent] = new(pathSet)
	}
	x.inside[m.parent].add(m.inside)
	insert(x.devices, m.device, id)
	if m.fickle {
		x.fickle[id] = struct{}{}
		return
	}
	insert(x.sources, m.source, id)
}

func (x *index) remove(id uint64) {
	m, ok := x.mounts[id]
	if !ok {
		return
	}
	delete(x.mounts, id)
	if x.inside[m.parent].remove(m.inside); x.inside[m.parent].total == 0 {
		delete(x.inside, m.parent)
	}
	drop(x.devices, m.device, id)
	if m.fickle {
		delete(x.fickle, id)
		return
	}
	drop(x.sources, m.source, id)
}

// keep removes what is not among the ids, and returns those that are not in it.
func (x *index) keep(all []uint64) (missing []uint64) {
	for id := range x.mounts {
		if _, ok := slices.BinarySearch(all, id); !ok {
			x.remove(id)
		}
	}
	for _, id := range all {
		if _, ok := x.mounts[id]; !ok {
			missing = append(missing, id)
		}
	}
	return missing
}

// of returns the mounts of a device, in the kernel's order.
func (x *index) of(d device) []uint64 { return slices.Sorted(maps.Keys(x.devices[d])) }

// from returns the mounts that may be from the origin, in the kernel's order.
func (x *index) from(o origin) []uint64 {
	found := maps.Clone(x.fickle)
	if o.block {
		maps.Copy(found, x.devices[o.device])
	} else {
		maps.Copy(found, x.sources[o.source])
	}
	return slices.Sorted(maps.Keys(found))
}

func insert[K comparable](sets map[K]ids, key K, id uint64) {
	if sets[key] == nil {
		sets[key] = make(ids)
	}
	sets[key][id] = struct{}{}
}

func drop[K comparable](sets map[K]ids, key K, id uint64) {
	delete(sets[key], id)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
