package testbed

import (
	"encoding/binary"

	"github.com/volumekit/volumekit/internal/fuseserver"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// ServeFUSE is the program of a [FUSE]'s process, see [FUSEProgram].
func ServeFUSE(p mounttest.Process) {
	d := &fuseDaemon{nodes: map[uint64]*fuseNode{fuseRoot: {mode: unix.S_IFDIR | 0o755, entries: map[string]uint64{}}}, last: fuseRoot}
	switch p.Args[0] {
	case Warm:
		d.valid = 3600
	case Ignoring:
		d.keepsOwners = true
	}
	fuseserver.Serve(d.handle)
}

// A fuseDaemon has the files of one file system.
type fuseDaemon struct {
	nodes map[uint64]*fuseNode
	last  uint64 // the number of the newest node
	valid uint64 // the seconds for which the kernel may cache names and attributes

	keepsOwners bool // it ignores changes of owner
}

const fuseRoot = 1

// A fuseNode is a file of any type.
type fuseNode struct {
	mode, uid, gid, rdev uint32
	data                 []byte            // of a file, or the target of a link
	entries              map[string]uint64 // of a directory
}

func (d *fuseDaemon) handle(r fuseserver.Request) ([]byte, unix.Errno) {
	node := d.nodes[r.Node()]
	if node == nil {
		return nil, unix.ESTALE
	}
	return d.reply(r, node)
}

// reply executes a request.
func (d *fuseDaemon) reply(r fuseserver.Request, node *fuseNode) ([]byte, unix.Errno) {
	body := r.Body()
	switch r.Opcode() {
	case fuseserver.Lookup:
		return d.entry(node, fuseserver.Text(body))
	case fuseserver.Getattr:
		return d.attr(r.Node()).Out(d.valid), 0
	case fuseserver.Setattr:
		uid, gid := node.uid, node.gid
		if node.set(body); d.keepsOwners {
			node.uid, node.gid = uid, gid
		}
		return d.attr(r.Node()).Out(d.valid), 0
	case fuseserver.Readlink:
		return node.data, 0
	case fuseserver.Symlink:
		name := fuseserver.Text(body)
		return d.create(node, name, &fuseNode{mode: unix.S_IFLNK | 0o777, data: []byte(fuseserver.Text(body[len(name)+1:]))})
	case fuseserver.Mknod:
		return d.create(node, fuseserver.Text(body[16:]), &fuseNode{mode: fuseserver.U32(body, 0), rdev: fuseserver.U32(body, 4)})
	case fuseserver.Mkdir:
		return d.create(node, fuseserver.Text(body[8:]), &fuseNode{mode: unix.S_IFDIR | fuseserver.U32(body, 0), entries: map[string]uint64{}})
	case fuseserver.Create:
		entry, err := d.create(node, fuseserver.Text(body[16:]), &fuseNode{mode: unix.S_IFREG | fuseserver.U32(body, 4)&0o7777})
		return append(entry, make([]byte, 16)...), err
	case fuseserver.Unlink, fuseserver.Rmdir:
		return nil, d.remove(node, fuseserver.Text(body), r.Opcode() == fuseserver.Rmdir)
	case fuseserver.Rename:
		return nil, d.rename(node, fuseserver.U64(body, 0), body[8:], 0)
	case fuseserver.Rename2:
		return nil, d.rename(node, fuseserver.U64(body, 0), body[16:], fuseserver.U32(body, 8))
	case fuseserver.Open, fuseserver.Opendir:
		return make([]byte, 16), 0
	case fuseserver.Read:
		return node.read(fuseserver.U64(body, 8), fuseserver.U32(body, 16)), 0
	case fuseserver.Write:
		node.write(fuseserver.U64(body, 8), body[40:40+fuseserver.U32(body, 16)])
		return binary.NativeEndian.AppendUint64(nil, uint64(fuseserver.U32(body, 16))), 0
	case fuseserver.Readdir:
		return d.list(node, fuseserver.U64(body, 8), int(fuseserver.U32(body, 16))), 0
	case fuseserver.Statfs:
		return statfsAnswer(), 0
	case fuseserver.Release, fuseserver.Releasedir, fuseserver.Fsync, fuseserver.Fsyncdir, fuseserver.Flush, fuseserver.Destroy:
		return nil, 0
	}
	return nil, unix.ENOSYS
}

// statfsAnswer returns a struct fuse_kstatfs.
func statfsAnswer() []byte {
	out := make([]byte, 80)
	for i, value := range []uint64{1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19} { // blocks and inodes
		binary.NativeEndian.PutUint64(out[8*i:], value)
	}
	for i, value := range []uint32{4096, 255, 4096} { // block, name, fragment
		binary.NativeEndian.PutUint32(out[40+4*i:], value)
	}
	return out
}
