package record

import (
	"sync"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// ReportsParents reports whether the kernel has unique mount IDs, and reports the parent of a
// mount (Linux 6.8).
var ReportsParents = sync.OnceValue(func() bool {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, "/", kernel.Quiet, unix.STATX_MNT_ID_UNIQUE, &x)
	if err != nil || x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return false
	}
	_, err = ReadBasic(x.Mnt_id)
	return err == nil
})
