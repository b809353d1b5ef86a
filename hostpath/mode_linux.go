package hostpath

import (
	"context"
	"io/fs"
	"os"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// open opens the file at an absolute path without symbolic links (O_PATH), and returns its
// type. It uses cached attributes.
func open(name string) (*os.File, fs.FileMode, error) {
	fd, err := safepath.Open(context.Background(), unix.AT_FDCWD, name, 0)
	if err != nil {
		return nil, 0, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var x unix.Statx_t
	const quiet = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(fd, "", quiet, unix.STATX_TYPE, &x); err != nil {
		_ = unix.Close(fd)
		return nil, 0, &os.PathError{Op: "statx", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), kinds[x.Mode&unix.S_IFMT], nil
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
