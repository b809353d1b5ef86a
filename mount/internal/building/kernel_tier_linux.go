package building

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"unsafe"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// KernelTier returns the newest tier of the kernel. It calls the system calls with arguments
// that no kernel accepts: a kernel with the call returns EINVAL, one without it ENOSYS, and a
// system call filter usually EPERM.
var KernelTier = sync.OnceValue(func() Tier {
	_, err := unix.OpenTree(-1, "", ^uint(0))
	if !errors.Is(err, unix.EINVAL) || !errors.Is(mountSetattrSized(0), unix.EINVAL) {
		return TierClassic
	}
	if _, err := openTreeAttr(-1, ^uint(0), &unix.MountAttr{}); !errors.Is(err, unix.EINVAL) {
		return TierDetached
	}
	return TierTreeAttr
})

// SelectTier returns the tier to build with.
func (b *Builder) SelectTier() (Tier, error) {
	offered := KernelTier()
	switch want := b.Tier; {
	case want == TierAuto:
		return offered, nil
	case want < TierAuto || want > TierTreeAttr:
		return 0, failure.NewInputError("Config.Tier", strconv.Itoa(int(want)), "must be TierAuto, TierClassic, TierDetached or TierTreeAttr")
	case want > offered:
		return 0, fmt.Errorf("tier %v: requires %s: %w", want, tierKernels[want], errors.ErrUnsupported)
	default:
		return want, nil
	}
}

// mayFallBack reports whether an error of a newer tier leads to the classic one: a system call
// filter forbids the call. Without CAP_SYS_ADMIN mount(2) would fail, too.
func (b *Builder) mayFallBack(err error) bool {
	isFiltered := errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) && kernel.HasCapability(unix.CAP_SYS_ADMIN)
	return b.Tier == TierAuto && isFiltered
}

// mountSetattrSized calls mount_setattr(2) with a structure of size bytes. A kernel with the
// call refuses a size that no version of the structure has, such as 0.
func mountSetattrSized(size uintptr) error {
	var attr unix.MountAttr
	var empty byte
	_, _, errno := unix.Syscall6(unix.SYS_MOUNT_SETATTR, ^uintptr(0),
		uintptr(unsafe.Pointer(&empty)), unix.AT_EMPTY_PATH,
		uintptr(unsafe.Pointer(&attr)), size, 0)
	return kernel.ErrorOf(errno)
}

// openTreeAttr clones the tree at fd and sets the attributes of the clone in one call.
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
