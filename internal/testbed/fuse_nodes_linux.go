package testbed

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/volumekit/volumekit/internal/fuseserver"
	"golang.org/x/sys/unix"
)

// entry returns a struct fuse_entry_out.
func (d *fuseDaemon) entry(in *fuseNode, name string) ([]byte, unix.Errno) {
	id, ok := in.entries[name]
	if !ok {
		return nil, unix.ENOENT
	}
	return d.attr(id).Entry(d.valid), 0
}

func (d *fuseDaemon) attr(id uint64) fuseserver.Attr {
	n := d.nodes[id]
	return fuseserver.Attr{Node: id, Size: uint64(len(n.data)), Mode: n.mode, UID: n.uid, GID: n.gid, Rdev: n.rdev}
}

func (d *fuseDaemon) create(in *fuseNode, name string, node *fuseNode) ([]byte, unix.Errno) {
	if _, ok := in.entries[name]; ok {
		return nil, unix.EEXIST
	}
	d.last++
	d.nodes[d.last], in.entries[name] = node, d.last
	return d.entry(in, name)
}

// remove removes the name and keeps the node, which may be open.
func (d *fuseDaemon) remove(in *fuseNode, name string, isDir bool) unix.Errno {
	node := d.nodes[in.entries[name]]
	switch {
	case node == nil:
		return unix.ENOENT
	case isDir && node.entries == nil:
		return unix.ENOTDIR
	case isDir && len(node.entries) > 0:
		return unix.ENOTEMPTY
	case !isDir && node.entries != nil:
		return unix.EISDIR
	}
	delete(in.entries, name)
	return 0
}

func (d *fuseDaemon) rename(from *fuseNode, dir uint64, names []byte, flags uint32) unix.Errno {
	to := d.nodes[dir]
	oldName := fuseserver.Text(names)
	newName := fuseserver.Text(names[len(oldName)+1:])
	id, ok := from.entries[oldName]
	if to == nil || !ok {
		return unix.ENOENT
	}
	other, exists := to.entries[newName]
	switch {
	case exists && flags&unix.RENAME_NOREPLACE != 0:
		return unix.EEXIST
	case flags&unix.RENAME_EXCHANGE != 0:
		from.entries[oldName], to.entries[newName] = other, id
		return 0
	case exists && len(d.nodes[other].entries) > 0:
		return unix.ENOTEMPTY
	}
	delete(from.entries, oldName)
	to.entries[newName] = id
	return 0
}

// list returns struct fuse_dirent records from an offset on, of at most most bytes.
func (d *fuseDaemon) list(in *fuseNode, from uint64, most int) (out []byte) {
	for i, name := range slices.Sorted(maps.Keys(in.entries)) {
		size := (24 + len(name) + 7) &^ 7
		if uint64(i) < from || len(out)+size > most {
			continue
		}
		id := in.entries[name]
		entry := make([]byte, size)
		binary.NativeEndian.PutUint64(entry, id)
		binary.NativeEndian.PutUint64(entry[8:], uint64(i)+1)
		binary.NativeEndian.PutUint32(entry[16:], uint32(len(name)))
		binary.NativeEndian.PutUint32(entry[20:], d.nodes[id].mode>>12)
		copy(entry[24:], name)
		out = append(out, entry...)
	}
	return out
}

// set applies a struct fuse_setattr_in.
func (n *fuseNode) set(in []byte) {
	const mode, uid, gid, size = 1, 2, 4, 8
	valid := fuseserver.U32(in, 0)
	if valid&mode != 0 {
		n.mode = n.mode&unix.S_IFMT | fuseserver.U32(in, 68)&^unix.S_IFMT
	}
	if valid&uid != 0 {
		n.uid = fuseserver.U32(in, 76)
	}
	if valid&gid != 0 {
		n.gid = fuseserver.U32(in, 80)
	}
	if valid&size != 0 {
		n.resize(fuseserver.U64(in, 16))
	}
}

func (n *fuseNode) resize(size uint64) {
	if size < uint64(len(n.data)) {
		n.data = n.data[:size]
	}
	n.data = append(n.data, make([]byte, size-uint64(len(n.data)))...)
}

func (n *fuseNode) read(offset uint64, size uint32) []byte {
	rest := n.data[min(offset, uint64(len(n.data))):]
	return rest[:min(uint64(size), uint64(len(rest)))]
}

func (n *fuseNode) write(offset uint64, data []byte) {
	if end := offset + uint64(len(data)); end > uint64(len(n.data)) {
		n.resize(end)
	}
	copy(n.data[offset:], data)
}
