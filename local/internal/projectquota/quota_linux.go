package projectquota

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"unsafe"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// Commands of quotactl(2), with the type of a project quota, as linux/quota.h and linux/dqblk_xfs.h
// define them. All of them work on each file system.
const (
	projectType = 2
	getQuota    = 0x800007<<8 | projectType
	setQuota    = 0x800008<<8 | projectType
	getState    = ('X'<<8+8)<<8 | projectType
)

// A quotaState is struct fs_quota_statv.
type quotaState struct {
	version int8
	_       uint8
	flags   uint16
	_       uint32
	_       [9]uint64 // quota files
	_       [6]uint32 // time limits, and limits of warnings
	_       [7]uint64
}

const (
	stateVersion    = 1      // FS_QSTATV_VERSION1
	projectEnforced = 1 << 5 // FS_QUOTA_PDQ_ENFD
)

// A quotaLimits is struct if_dqblk.
type quotaLimits struct {
	hardBlocks, softBlocks uint64 // of limitUnit bytes
	space                  uint64 // in bytes
	hardFiles, softFiles   uint64
	files                  uint64
	_, _                   uint64 // times
	valid                  uint32
}

const (
	limitUnit   = 1024
	validBlocks = 1 // QIF_BLIMITS
)

// hasCall reports whether the kernel has quotactl_fd(2).
var hasCall = sync.OnceValue(func() bool {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, ^uintptr(0), getState, 0, 0, 0, 0)
	return errno != unix.ENOSYS
})

// Check returns nil if the file system at dir enforces project quotas and the process may set them.
// The error names the missing feature; it wraps ErrOff unless dir could not be opened.
func Check(dir string) error {
	if !hasCall() {
		return fmt.Errorf("%w: requires Linux 5.14 with quotactl_fd", ErrOff)
	}
	state := quotaState{version: stateVersion}
	err := control(dir, getState, 0, unsafe.Pointer(&state))
	var errno unix.Errno
	switch {
	case errors.As(err, &errno) && (errno == unix.ENOSYS || errno == unix.EOPNOTSUPP || errno == unix.ESRCH || errno == unix.ENOTBLK):
		return fmt.Errorf("%w: the file system is not mounted with prjquota", ErrOff)
	case err != nil:
		return err
	case state.flags&projectEnforced == 0:
		return fmt.Errorf("%w: the file system is not mounted with prjquota", ErrOff)
	}
	if _, err = Query(dir, firstProject); errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: requires CAP_SYS_ADMIN: %w", ErrOff, err)
	}
	return err
}

// Query returns the use of a project of the file system at dir.
func Query(dir string, project uint32) (Use, error) {
	var have quotaLimits
	err := control(dir, getQuota, project, unsafe.Pointer(&have))
	if errors.Is(err, unix.ENOENT) { // a project that xfs has never seen
		return Use{}, nil
	}
	return Use{Bytes: int64(have.space), Files: int64(have.files), Limit: int64(have.hardBlocks * limitUnit)}, err
}

// SetLimit limits a project of the file system at dir to a number of bytes, rounded up to a KiB. 0: no
// limit.
func SetLimit(dir string, project uint32, bytes int64) error {
	blocks := (uint64(bytes) + limitUnit - 1) / limitUnit
	want := quotaLimits{hardBlocks: blocks, softBlocks: blocks, valid: validBlocks}
	return control(dir, setQuota, project, unsafe.Pointer(&want))
}

// control calls quotactl_fd(2) for the file system at dir.
func control(dir string, command uintptr, project uint32, data unsafe.Pointer) error {
	return withDir(dir, func(fd int) error {
		_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), command, uintptr(project), uintptr(data), 0, 0)
		if errno != 0 {
			return &fs.PathError{Op: "quotactl", Path: dir, Err: errno}
		}
		return nil
	})
}

// attributes is struct fsxattr.
type attributes struct {
	flags, extentSize, extents uint32
	project                    uint32
	_                          uint32
	_                          [8]byte
}

const inheritProject = 0x200 // FS_XFLAG_PROJINHERIT

// The requests FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR. Their directions are coded as the processor
// codes those of the flags.
const (
	directions    = 0xe0000000
	getAttributes = unix.FS_IOC_GETFLAGS&directions | 28<<16 | 'X'<<8 | 31
	setAttributes = unix.FS_IOC_SETFLAGS&directions | 28<<16 | 'X'<<8 | 32
)

// ProjectOf returns the project of the directory dir; 0: the default one.
func ProjectOf(dir string) (uint32, error) {
	var have attributes
	err := withDir(dir, func(fd int) error { return transfer(dir, fd, getAttributes, &have) })
	return have.project, err
}

// Assign assigns the directory dir, and all new files in it, to a project.
func Assign(dir string, project uint32) error {
	return withDir(dir, func(fd int) error {
		var have attributes
		if err := transfer(dir, fd, getAttributes, &have); err != nil {
			return err
		}
		have.project, have.flags = project, have.flags|inheritProject
		return transfer(dir, fd, setAttributes, &have)
	})
}

func transfer(dir string, fd int, request uintptr, a *attributes) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a))); errno != 0 {
		return &fs.PathError{Op: "set the project of", Path: dir, Err: errno}
	}
	return nil
}

// withDir opens dir without following a symbolic link.
func withDir(dir string, work func(fd int) error) error {
	path, err := safepath.Open(context.Background(), unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(path) }()
	fd, err := unix.Openat(path, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	return work(fd)
}
