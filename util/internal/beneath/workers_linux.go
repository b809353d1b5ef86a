package beneath

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Workers returns a number of workers for a directory: on a network file system more than
// there are processors.
func Workers(dir int) int {
	const local, remote = 2, 16
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir, &fs); err == nil {
		switch fs.Type {
		case unix.NFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
			return remote
		}
	}
	return min(local, runtime.GOMAXPROCS(0))
}
