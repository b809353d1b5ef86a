package contract

import (
	"io/fs"
	"syscall"
)

// ownersOf returns the owners of a file.
func ownersOf(info fs.FileInfo) (uid, gid int64, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, 0, false
	}
	return int64(stat.Uid), int64(stat.Gid), true
}
