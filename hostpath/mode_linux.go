package hostpath

import (
	"context"
	"io/fs"
	"os"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// open opens the file at an absolute path without symbolic links (O_PATH). It uses cached
// attributes.
func open(name string) (found, error) {
	fd, err := safepath.Open(context.Background(), unix.AT_FDCWD, name, 0)
	if err != nil {
		return found{path: name}, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var x unix.Statx_t
	const quiet = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(fd, "", quiet, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_MNT_ID_UNIQUE, &x); err != nil {
		_ = unix.Close(fd)
		return found{path: name}, &os.PathError{Op: "statx", Path: name, Err: err}
	}
	return foundAt(name, os.NewFile(uintptr(fd), name), x), nil
}

// foundAt returns an open file with its attributes.
func foundAt(name string, file *os.File, x unix.Statx_t) found {
	there := found{
		path: name, file: file, mode: kinds[x.Mode&unix.S_IFMT],
		id: fileID{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino},
	}
	if x.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		there.mount = x.Mnt_id
	}
	return there
}

var kinds = map[uint16]fs.FileMode{
	unix.S_IFDIR:  fs.ModeDir,
	unix.S_IFREG:  0,
	unix.S_IFSOCK: fs.ModeSocket,
	unix.S_IFIFO:  fs.ModeNamedPipe,
	unix.S_IFCHR:  fs.ModeDevice | fs.ModeCharDevice,
	unix.S_IFBLK:  fs.ModeDevice,
	unix.S_IFLNK:  fs.ModeSymlink,
}
