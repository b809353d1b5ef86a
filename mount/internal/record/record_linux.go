package record

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// The parts of a record, as bits of a want mask (STATMOUNT_*).
const (
	WantDevice   uint64 = 0x1 // device, kind and flags of the file system
	WantMount    uint64 = 0x2 // IDs, attributes and propagation
	WantOrigin   uint64 = 0x4 // of propagation
	WantRoot     uint64 = 0x8
	WantPoint    uint64 = 0x10
	WantType     uint64 = 0x20
	WantSubtype  uint64 = 0x100
	WantSource   uint64 = 0x200
	WantOptions  uint64 = 0x400
	WantSecurity uint64 = 0x800
	WantUIDs     uint64 = 0x2000
	WantGIDs     uint64 = 0x4000
)

// A Reader reads records into a buffer of its own. It is for one goroutine. The zero value
// is ready for use.
type Reader struct{ buf []byte }

// A Record describes one mount. The next call of its Reader overwrites it.
type Record struct {
	*statmountAnswer
	text []byte
}

const (
	firstAnswer   = 4 << 10
	longestAnswer = 16 << 20 // beyond the longest answer of the kernel
)

// Read reads the parts in mask of a mount's record.
func (r *Reader) Read(id, mask uint64) (Record, error) {
	if r.buf == nil {
		r.buf = make([]byte, firstAnswer)
	}
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: id, mask: mask}
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)),
			uintptr(unsafe.Pointer(&r.buf[0])), uintptr(len(r.buf)), 0, 0, 0)
		switch {
		case errno == 0:
			answer := (*statmountAnswer)(unsafe.Pointer(&r.buf[0]))
			end := min(uint64(answer.size), uint64(len(r.buf)))
			return Record{answer, r.buf[unsafe.Sizeof(*answer):max(end, uint64(unsafe.Sizeof(*answer)))]}, nil
		case errno == unix.EOVERFLOW && len(r.buf) < longestAnswer:
			r.buf = make([]byte, 2*len(r.buf))
		case errno != unix.EINTR && errno != unix.EAGAIN:
			return Record{}, explainMissingCall(errno)
		}
	}
}

// explainMissingCall adds the requirement and errors.ErrUnsupported to the errors of a missing or
// forbidden call.
func explainMissingCall(errno unix.Errno) error {
	var requires string
	switch errno {
	case unix.ENOSYS:
		requires = "Linux 6.8"
	case unix.EPERM:
		requires = "CAP_SYS_ADMIN in the user namespace of the mount namespace, or a system call filter that permits them"
	default:
		return errno
	}
	return fmt.Errorf("statmount(2) and listmount(2): requires %s: %w: %w", requires, errors.ErrUnsupported, errno)
}

// Has reports whether the record holds all parts in mask.
func (r Record) Has(mask uint64) bool { return r.mask&mask == mask }

// Bytes returns the string at an offset, or nil without the part in mask.
func (r Record) Bytes(mask uint64, at uint32) []byte {
	if !r.Has(mask) || uint64(at) >= uint64(len(r.text)) {
		return nil
	}
	s := r.text[at:]
	if end := bytes.IndexByte(s, 0); end >= 0 {
		s = s[:end]
	}
	return s
}

// Strings returns n consecutive strings from an offset on.
func (r Record) Strings(mask uint64, at, n uint32) []string {
	if !r.Has(mask) {
		return nil
	}
	var all []string
	for range n {
		s := r.Bytes(mask, at)
		all = append(all, string(s))
		at += uint32(len(s)) + 1
	}
	return all
}

// DeletedMark ends the root of a mount whose directory was removed. A path never holds two
// slashes.
const DeletedMark = "//deleted"

// Device returns the device of the file system (WantDevice).
func (r Record) Device() kernel.Device { return kernel.Device{Major: r.Major, Minor: r.Minor} }

// RootPath returns the root of the mount in its file system (WantRoot).
func (r Record) RootPath() []byte { return r.Bytes(WantRoot, r.root) }

// MountPoint returns the mount point (WantPoint), or nothing for a mount that the process
// cannot reach from its root.
func (r Record) MountPoint() []byte { return r.Bytes(WantPoint, r.point) }

// CheckListing returns nil if the kernel supports and permits listmount(2). It lists one
// mount to find out.
func CheckListing() error {
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: allMounts}
	var first uint64
	_, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&request)),
		uintptr(unsafe.Pointer(&first)), 1, 0, 0, 0)
	if errno != 0 {
		return explainMissingCall(errno)
	}
	return nil
}

const allMounts = ^uint64(0) // LSMT_ROOT

// List returns the unique mount IDs of all mounts that the process can reach from its root,
// in ascending order.
func List() ([]uint64, error) { return ListIn(allMounts) }

// ListIn returns the unique mount IDs of the mounts in and below a mount, in ascending
// order.
func ListIn(mount uint64) ([]uint64, error) {
	ids := make([]uint64, 0, 1024)
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: mount}
	for {
		if cap(ids)-len(ids) < 512 {
			ids = append(make([]uint64, 0, 2*cap(ids)), ids...)
		}
		room := ids[len(ids):cap(ids)]
		n, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&request)),
			uintptr(unsafe.Pointer(&room[0])), uintptr(len(room)), 0, 0, 0)
		runtime.KeepAlive(room)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return nil, explainMissingCall(errno)
		}
		ids = ids[:len(ids)+int(n)]
		if int(n) < len(room) {
			return ids, nil
		}
		request.mask = ids[len(ids)-1] // continue after the last one
	}
}
