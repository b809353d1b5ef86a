package fuseserver

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// The opcodes of linux/fuse.h.
const (
	Lookup      = 1
	Forget      = 2
	Getattr     = 3
	Setattr     = 4
	Readlink    = 5
	Symlink     = 6
	Mknod       = 8
	Mkdir       = 9
	Unlink      = 10
	Rmdir       = 11
	Rename      = 12
	Open        = 14
	Read        = 15
	Write       = 16
	Statfs      = 17
	Release     = 18
	Fsync       = 20
	Flush       = 25
	Init        = 26
	Opendir     = 27
	Readdir     = 28
	Releasedir  = 29
	Fsyncdir    = 30
	Create      = 35
	Interrupt   = 36
	Destroy     = 38
	BatchForget = 42
	Rename2     = 45
)

// A Request is struct fuse_in_header and its body.
type Request []byte

const headerSize = 40

// Opcode returns one of the constants of this package.
func (r Request) Opcode() uint32 { return U32(r, 4) }

// Node returns the number of the file that the request is about; 1 is the root.
func (r Request) Node() uint64 { return U64(r, 16) }

// Body returns the part after the header.
func (r Request) Body() []byte { return r[headerSize:] }

// answer writes struct fuse_out_header and the payload.
func (r Request) answer(err unix.Errno, payload []byte) {
	if err != 0 {
		payload = nil
	}
	out := make([]byte, 16, 16+len(payload))
	binary.NativeEndian.PutUint32(out, uint32(16+len(payload)))
	binary.NativeEndian.PutUint32(out[4:], uint32(-int32(err)))
	binary.NativeEndian.PutUint64(out[8:], U64(r, 8))
	_, _ = unix.Write(descriptor, append(out, payload...))
}

// initAnswer is struct fuse_init_out of protocol 7.23, which later kernels speak.
func initAnswer() []byte {
	out := make([]byte, 64)
	binary.NativeEndian.PutUint32(out, 7)
	binary.NativeEndian.PutUint32(out[4:], 23)
	binary.NativeEndian.PutUint32(out[20:], 1<<16) // largest write
	return out
}

// An Attr is struct fuse_attr.
type Attr struct {
	Node, Size           uint64
	Mode, UID, GID, Rdev uint32
}

func (a Attr) encode() []byte {
	out := make([]byte, 88)
	binary.NativeEndian.PutUint64(out, a.Node)
	binary.NativeEndian.PutUint64(out[8:], a.Size)
	const links, blockSize = 1, 512
	for i, value := range []uint32{a.Mode, links, a.UID, a.GID, a.Rdev, blockSize} {
		binary.NativeEndian.PutUint32(out[60+4*i:], value)
	}
	return out
}

// Entry returns struct fuse_entry_out: the kernel may keep name and attributes for valid
// seconds.
func (a Attr) Entry(valid uint64) []byte {
	out := make([]byte, 40)
	binary.NativeEndian.PutUint64(out, a.Node)
	binary.NativeEndian.PutUint64(out[16:], valid)
	binary.NativeEndian.PutUint64(out[24:], valid)
	return append(out, a.encode()...)
}

// Out returns struct fuse_attr_out.
func (a Attr) Out(valid uint64) []byte {
	out := make([]byte, 16)
	binary.NativeEndian.PutUint64(out, valid)
	return append(out, a.encode()...)
}

// U32 returns the number at an offset.
func U32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }

// U64 returns the number at an offset.
func U64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }

// Text returns the text that ends with a NUL.
func Text(body []byte) string {
	text, _, _ := strings.Cut(string(body), "\x00")
	return text
}
