package record

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Basic is the part of a record without strings.
type Basic struct {
	ParentID       uint64 // mount ID of the parent
	ParentUniqueID uint64 // its unique mount ID
	Attrs          uint64 // MOUNT_ATTR_RDONLY, ...
	Propagation    uint64 // MS_SHARED, MS_SLAVE, ...
	IDMapped       bool
	SuperReadOnly  bool // the file system is read-only, for any reason
	Daemon         bool // a daemon serves the file system: FUSE without a block device
}

const (
	basicFields   = WantDevice | WantMount
	superReadOnly = 0x1 // SB_RDONLY
)

// ReadBasic reads the basic part of a mount's record in one call. Without statmount(2) the
// error is errors.ErrUnsupported; without the mount it is unix.ENOENT.
func ReadBasic(unique uint64) (Basic, error) {
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: unique, mask: basicFields}
	var answer statmountAnswer
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)),
		uintptr(unsafe.Pointer(&answer)), unsafe.Sizeof(answer), 0, 0, 0)
	switch {
	case errno == unix.ENOSYS || errno == unix.EPERM:
		return Basic{}, errors.ErrUnsupported
	case errno != 0:
		return Basic{}, errno
	case answer.mask&basicFields != basicFields:
		return Basic{}, errors.ErrUnsupported
	}
	return Basic{
		ParentID:       uint64(answer.TableParentID),
		ParentUniqueID: answer.Parent,
		Attrs:          answer.Attrs,
		Propagation:    answer.propagation,
		IDMapped:       answer.Attrs&unix.MOUNT_ATTR_IDMAP != 0,
		SuperReadOnly:  answer.superFlags&superReadOnly != 0,
		Daemon:         answer.Magic == unix.FUSE_SUPER_MAGIC && answer.Major == 0,
	}, nil
}
