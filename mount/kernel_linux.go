package mount

import (
	"errors"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tiers returns the tiers that the running kernel offers, the oldest first.
func Tiers() []Tier {
	tiers := []Tier{TierClassic}
	for tier := TierDetached; tier <= kernelTier(); tier++ {
		tiers = append(tiers, tier)
	}
	return tiers
}

// kernelTier asks for the calls themselves, with arguments that no kernel
// accepts: one that has the call says EINVAL, one that lacks it ENOSYS, and a
// filter that forbids it, usually, EPERM.
var kernelTier = sync.OnceValue(func() Tier {
	_, err := unix.OpenTree(-1, "", ^uint(0))
	if !errors.Is(err, unix.EINVAL) || !errors.Is(mountSetattrSized(0), unix.EINVAL) {
		return TierClassic
	}
	if _, err := openTreeAttr(-1, ^uint(0), &unix.MountAttr{}); !errors.Is(err, unix.EINVAL) {
		return TierDetached
	}
	return TierTreeAttr
})

// mountSetattrSized calls mount_setattr with a structure of so many bytes.
func mountSetattrSized(size uintptr) error {
	var attr unix.MountAttr
	var empty byte
	_, _, errno := unix.Syscall6(unix.SYS_MOUNT_SETATTR, ^uintptr(0),
		uintptr(unsafe.Pointer(&empty)), unix.AT_EMPTY_PATH,
		uintptr(unsafe.Pointer(&attr)), size, 0)
	return errnoErr(errno)
}

// openTreeAttr clones the tree at fd and sets its attributes in one call.
func openTreeAttr(fd int, flags uint, attr *unix.MountAttr) (int, error) {
	var empty byte
	tree, _, errno := unix.Syscall6(unix.SYS_OPEN_TREE_ATTR, uintptr(fd),
		uintptr(unsafe.Pointer(&empty)), uintptr(flags),
		uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0)
	if errno != 0 {
		return -1, errno
	}
	return int(tree), nil
}

func errnoErr(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
