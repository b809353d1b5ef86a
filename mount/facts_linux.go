package mount

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What statmount(2) is asked for.
const (
	askDevice   uint64 = 0x1 // with the flags of the file system
	askMount    uint64 = 0x2 // numbers and flags
	askOrigin   uint64 = 0x4 // of propagation
	askRoot     uint64 = 0x8
	askPoint    uint64 = 0x10
	askType     uint64 = 0x20
	askSubtype  uint64 = 0x100
	askSource   uint64 = 0x200
	askOptions  uint64 = 0x400
	askSecurity uint64 = 0x800
	askUIDs     uint64 = 0x2000
	askGIDs     uint64 = 0x4000
)

// An asker asks the kernel about mounts by their unique ids, which are never used
// again (Linux 6.8). It asks the mount table alone, so no server holds it up. It is
// for one goroutine.
type asker struct{ buf []byte }

// facts is the kernel's answer about a mount. It is valid until the next question.
type facts struct {
	*statmountAnswer
	text []byte
}

const (
	firstAnswer   = 4 << 10
	longestAnswer = 16 << 20 // more than all that the kernel would write
)

// ask returns what there is of what is asked for: of a string that is empty, the
// answer's mask may lack the bit. Without the call, or where it is forbidden, the
// error wraps errors.ErrUnsupported; without the mount it is unix.ENOENT.
func (a *asker) ask(id, mask uint64) (facts, error) {
	if a.buf == nil {
		a.buf = make([]byte, firstAnswer)
	}
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: id, mask: mask}
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)),
			uintptr(unsafe.Pointer(&a.buf[0])), uintptr(len(a.buf)), 0, 0, 0)
		switch {
		case errno == 0:
			answer := (*statmountAnswer)(unsafe.Pointer(&a.buf[0]))
			end := min(uint64(answer.size), uint64(len(a.buf)))
			return facts{answer, a.buf[unsafe.Sizeof(*answer):max(end, uint64(unsafe.Sizeof(*answer)))]}, nil
		case errno == unix.EOVERFLOW && len(a.buf) < longestAnswer:
			a.buf = make([]byte, 2*len(a.buf))
		case errno != unix.EINTR && errno != unix.EAGAIN:
			return facts{}, withoutCall(errno)
		}
	}
}

// withoutCall knows the errors of a call that the kernel lacks or a filter forbids.
func withoutCall(errno unix.Errno) error {
	if errno == unix.ENOSYS || errno == unix.EPERM {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, errno)
	}
	return errno
}

// has reports whether the kernel gave all of it.
func (f facts) has(mask uint64) bool { return f.mask&mask == mask }

// bytes returns a string of the answer that was asked for as mask.
func (f facts) bytes(mask uint64, at uint32) []byte {
	if !f.has(mask) || uint64(at) >= uint64(len(f.text)) {
		return nil
	}
	s := f.text[at:]
	if end := bytes.IndexByte(s, 0); end >= 0 {
		s = s[:end]
	}
	return s
}

// strings returns n strings, one after the other.
func (f facts) strings(mask uint64, at, n uint32) []string {
	if !f.has(mask) {
		return nil
	}
	var all []string
	for range n {
		s := f.bytes(mask, at)
		all = append(all, string(s))
		at += uint32(len(s)) + 1
	}
	return all
}

// deletedMark ends the root of a mount that has been removed. No path has two slashes.
const deletedMark = "//deleted"

func (f facts) device() device    { return device{f.major, f.minor} }
func (f facts) rootPath() []byte  { return f.bytes(askRoot, f.root) }
func (f facts) pointPath() []byte { return f.bytes(askPoint, f.point) }

// canList asks for the first mount.
func canList() error {
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: allMounts}
	var first uint64
	_, _, errno := unix.Syscall6(unix.SYS_LISTMOUNT, uintptr(unsafe.Pointer(&request)),
		uintptr(unsafe.Pointer(&first)), 1, 0, 0, 0)
	if errno != 0 {
		return withoutCall(errno)
	}
	return nil
}

const allMounts = ^uint64(0) // LSMT_ROOT

// listMounts returns the unique ids of all mounts that can be reached from the
// process's root, in ascending order.
func listMounts() ([]uint64, error) {
	ids := make([]uint64, 0, 1024)
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: allMounts}
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
			return nil, withoutCall(errno)
		}
		ids = ids[:len(ids)+int(n)]
		if int(n) < len(room) {
			return ids, nil
		}
		request.mask = ids[len(ids)-1] // go on after it
	}
}
