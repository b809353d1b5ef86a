package mount

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A mountStatus is what statmount(2) tells of a mount.
type mountStatus struct {
	parent uint64
	flags  Flags
}

// statMount asks the kernel about one mount, not about its file system (Linux
// 6.8). The mount must be attached. Without the call the error wraps
// errors.ErrUnsupported.
func statMount(fd int) (mountStatus, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|quiet, unix.STATX_MNT_ID_UNIQUE, &x); err != nil {
		return mountStatus{}, err
	}
	if x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return mountStatus{}, errors.ErrUnsupported
	}
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: x.Mnt_id, mask: statmountBasic}
	var answer statmountAnswer
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)),
		uintptr(unsafe.Pointer(&answer)), unsafe.Sizeof(answer), 0, 0, 0)
	switch {
	case errno == unix.ENOSYS || errno == unix.EPERM:
		return mountStatus{}, errors.ErrUnsupported
	case errno != 0:
		return mountStatus{}, errno
	case answer.mask&statmountBasic == 0:
		return mountStatus{}, errors.ErrUnsupported
	}
	return mountStatus{parent: uint64(answer.parentOld), flags: flagsOf(answer.attrs)}, nil
}

const statmountBasic = 0x2 // STATMOUNT_MNT_BASIC

// statmountRequest is struct mnt_id_req of linux/mount.h, in its first version.
type statmountRequest struct {
	size  uint32
	_     uint32
	mount uint64
	mask  uint64
}

// statmountAnswer begins as struct statmount of linux/mount.h does.
type statmountAnswer struct {
	size, _            uint32
	mask               uint64
	_                  [24]byte // the file system
	id, parent         uint64
	idOld, parentOld   uint32 // as in the mount table
	attrs, propagation uint64
	_                  [512 - 80]byte
}

// flagsOf reads the flags off the attributes of a mount.
func flagsOf(attrs uint64) Flags {
	var flags Flags
	for _, k := range kernelFlags {
		if k.flag&atime == 0 && attrs&k.attr != 0 {
			flags |= k.flag
		}
	}
	switch attrs & unix.MOUNT_ATTR__ATIME {
	case unix.MOUNT_ATTR_NOATIME:
		flags |= NoAtime
	case unix.MOUNT_ATTR_STRICTATIME:
		flags |= StrictAtime
	}
	return flags
}
