package mount

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// openSource returns a descriptor of what is to be bound.
func (m *Mounter) openSource(ctx context.Context, req Request) (int, error) {
	if req.SourceFile == nil {
		return lookup{m: m, ctx: ctx}.open(req.Source, 0)
	}
	conn, err := req.SourceFile.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	// The file stays open meanwhile, or is found closed: a caller who has given up
	// waiting may close it at any time.
	var inner error
	if err := conn.Control(func(open uintptr) { fd, inner = dupSource(int(open)) }); err != nil {
		return -1, os.ErrClosed // which it does not wrap
	}
	return fd, inner
}

// dupSource refuses a symbolic link, as a path does.
func dupSource(open int) (int, error) {
	var x unix.Statx_t
	if err := unix.Statx(open, "", unix.AT_EMPTY_PATH|quiet, unix.STATX_TYPE, &x); err != nil {
		return -1, err
	}
	if x.Mode&unix.S_IFMT == unix.S_IFLNK {
		return -1, unix.ELOOP
	}
	return unix.FcntlInt(uintptr(open), unix.F_DUPFD_CLOEXEC, 0)
}
