package table

import (
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// A processRoot identifies the directory "/" of a thread. Threads in other mount namespaces,
// and after chroot(2), have another one.
type processRoot struct {
	mount, inode uint64
	device       kernel.Device
}

// readProcessRoot returns the root of the calling thread. It needs unique mount IDs (Linux
// 6.8).
func readProcessRoot() (processRoot, error) {
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/", kernel.Quiet, unix.STATX_MNT_ID_UNIQUE|unix.STATX_INO, &x); err != nil {
		return processRoot{}, err
	}
	if x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return processRoot{}, kernel.ErrNoUniqueIDs
	}
	return processRoot{x.Mnt_id, x.Ino, kernel.Device{Major: x.Dev_major, Minor: x.Dev_minor}}, nil
}
