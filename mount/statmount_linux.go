package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A mountStatus is what the mount table says of a mount.
type mountStatus struct {
	parent        uint64
	flags         Flags  // of the mount alone
	propagation   uint64 // MS_SHARED, MS_SLAVE, ...; only from statMount
	idMapped      bool
	superReadOnly bool // its file system is read-only, at least for now
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
	return statMountID(x.Mnt_id)
}

// statMountID is statMount for a mount's unique number.
func statMountID(unique uint64) (mountStatus, error) {
	request := statmountRequest{size: uint32(unsafe.Sizeof(statmountRequest{})), mount: unique, mask: statmountWanted}
	var answer statmountAnswer
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)),
		uintptr(unsafe.Pointer(&answer)), unsafe.Sizeof(answer), 0, 0, 0)
	switch {
	case errno == unix.ENOSYS || errno == unix.EPERM:
		return mountStatus{}, errors.ErrUnsupported
	case errno != 0:
		return mountStatus{}, errno
	case answer.mask&statmountWanted != statmountWanted:
		return mountStatus{}, errors.ErrUnsupported
	}
	return mountStatus{
		parent:        uint64(answer.parentOld),
		flags:         flagsOf(answer.attrs),
		propagation:   answer.propagation,
		idMapped:      answer.attrs&unix.MOUNT_ATTR_IDMAP != 0,
		superReadOnly: answer.superFlags&superReadOnly != 0,
	}, nil
}

const (
	statmountWanted = 0x1 | 0x2 // STATMOUNT_SB_BASIC, STATMOUNT_MNT_BASIC
	superReadOnly   = 0x1       // SB_RDONLY
)

// statmountRequest is struct mnt_id_req of linux/mount.h, in its first version.
type statmountRequest struct {
	size  uint32
	_     uint32
	mount uint64
	mask  uint64
}

// statmountAnswer is struct statmount of linux/mount.h. Strings follow it, and are
// given as their distance from its end.
type statmountAnswer struct {
	size, _              uint32
	mask                 uint64
	major, minor         uint32
	magic                uint64 // the kind of file system
	superFlags, fsType   uint32
	id, parent           uint64
	idOld, parentOld     uint32 // as in the mount table
	attrs, propagation   uint64
	peers, master, from  uint64
	root, point          uint32
	_                    uint64 // the namespace
	subtype, source      uint32
	options, optionsAt   uint32 // how many, and where
	security, securityAt uint32
	_                    uint64 // what the kernel can say
	uids, uidsAt         uint32
	gids, gidsAt         uint32
	_                    [512 - 168]byte
}

// statusOf asks about an attached mount in any case: where statmount(2) is missing,
// the mount table is read.
func statusOf(fd int) (mountStatus, error) {
	status, err := statMount(fd)
	if !errors.Is(err, errors.ErrUnsupported) {
		return status, err
	}
	info, err := tableEntry(fd)
	if err != nil {
		return mountStatus{}, err
	}
	return mountStatus{
		parent:        uint64(info.Parent),
		flags:         info.Flags,
		idMapped:      slices.Contains(info.Options, "idmapped"),
		superReadOnly: slices.Contains(info.SuperOptions, "ro"),
	}, nil
}

// tableEntry returns the line of the mount table for the mount that fd is in.
func tableEntry(fd int) (Info, error) {
	id, err := identify(fd)
	if err != nil {
		return Info{}, err
	}
	table, err := readTable()
	if err != nil {
		return Info{}, err
	}
	at := slices.IndexFunc(table, func(i Info) bool { return uint64(i.ID) == id.mount })
	if at < 0 {
		return Info{}, fmt.Errorf("mount %d is not in the table: %w", id.mount, fs.ErrNotExist)
	}
	return table[at], nil
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
