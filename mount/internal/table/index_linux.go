package table

import (
	"maps"
	"slices"

	"github.com/volumekit/volumekit/mount/internal/kernel"
)

// An indexedMount holds the attributes of a mount that never change, and its place in its
// parent when it was attached. Paths and parents change without an event: when a directory
// above is renamed, and when another mount is attached beneath.
type indexedMount struct {
	device kernel.Device
	source string
	// anySource: the file system reports another source at each time.
	anySource bool
	parent    uint64 // unique mount ID
	inside    string // path in the parent
	// root is the inode of the mount's root, which a rename does not change; 0: unknown.
	root uint64
	// rootTried: the root was looked up once. It is not looked up again: another mount may
	// hide the mount, or its file system may report other inodes later.
	rootTried bool
}

// An index finds mounts by their attributes. Mounts are named by unique mount IDs.
type index struct {
	mounts    map[uint64]indexedMount
	devices   map[kernel.Device]idSet
	roots     map[deviceInode]idSet   // mounts with a known root
	rootless  map[kernel.Device]idSet // mounts without a known root
	sources   map[string]idSet
	anySource idSet
	inside    map[uint64]*pathSet // the places of mounts in each parent
	// sourced: the kernel reports sources (Linux 6.13). Some mounts have an empty source.
	sourced bool
}

type idSet map[uint64]struct{}

// A deviceInode is an inode of a file system.
type deviceInode struct {
	device kernel.Device
	inode  uint64
}

func newIndex() *index {
	return &index{
		mounts:    make(map[uint64]indexedMount),
		devices:   make(map[kernel.Device]idSet),
		roots:     make(map[deviceInode]idSet),
		rootless:  make(map[kernel.Device]idSet),
		sources:   make(map[string]idSet),
		anySource: make(idSet),
		inside:    make(map[uint64]*pathSet),
	}
}

// add adds or replaces a mount.
func (x *index) add(id uint64, m indexedMount) {
	x.remove(id)
	x.mounts[id] = m
	if x.inside[m.parent] == nil {
		x.inside[m.parent] = new(pathSet)
	}
	x.inside[m.parent].add(m.inside)
	insertID(x.devices, m.device, id)
	x.addRoot(id, m)
	if m.anySource {
		x.anySource[id] = struct{}{}
		return
	}
	insertID(x.sources, m.source, id)
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
	deleteID(x.devices, m.device, id)
	x.removeRoot(id, m)
	if m.anySource {
		delete(x.anySource, id)
		return
	}
	deleteID(x.sources, m.source, id)
}

func (x *index) addRoot(id uint64, m indexedMount) {
	if m.root != 0 {
		insertID(x.roots, deviceInode{m.device, m.root}, id)
		return
	}
	insertID(x.rootless, m.device, id)
}

func (x *index) removeRoot(id uint64, m indexedMount) {
	if m.root != 0 {
		deleteID(x.roots, deviceInode{m.device, m.root}, id)
		return
	}
	deleteID(x.rootless, m.device, id)
}

// setRoot records the root of a mount; 0: it cannot be known.
func (x *index) setRoot(id, root uint64) {
	m := x.mounts[id]
	x.removeRoot(id, m)
	m.root, m.rootTried = root, true
	x.mounts[id] = m
	x.addRoot(id, m)
}

// retain removes the mounts that are not in the sorted list all, and returns the mounts of
// all that the index lacks.
func (x *index) retain(all []uint64) (missing []uint64) {
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

// mountsShowing returns the mounts that may show an inode of a device, in ascending order.
func (x *index) mountsShowing(d kernel.Device, inode uint64) []uint64 {
	found := maps.Clone(x.rootless[d])
	if found == nil {
		found = idSet{}
	}
	maps.Copy(found, x.roots[deviceInode{d, inode}])
	return slices.Sorted(maps.Keys(found))
}

// mountsFrom returns the mounts that may have a source, in ascending order.
func (x *index) mountsFrom(s source) []uint64 {
	found := maps.Clone(x.anySource)
	if s.block {
		maps.Copy(found, x.devices[s.device])
	} else {
		maps.Copy(found, x.sources[s.text])
	}
	return slices.Sorted(maps.Keys(found))
}

func insertID[K comparable](sets map[K]idSet, key K, id uint64) {
	if sets[key] == nil {
		sets[key] = make(idSet)
	}
	sets[key][id] = struct{}{}
}

func deleteID[K comparable](sets map[K]idSet, key K, id uint64) {
	delete(sets[key], id)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
