package cli

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// watchReader calls gone when a pipe has no reader any more. Stop ends the wait, and may be called again; it is
// nil for other files, which are not watched. The wait has a descriptor of its own until its end: f may be
// closed meanwhile, and its number used for another file.
func watchReader(f *os.File, gone func()) (stop func()) {
	info, err := f.Stat()
	if err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return nil
	}
	pipe, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	end, ender, err := os.Pipe()
	if err != nil {
		_ = unix.Close(pipe)
		return nil
	}
	ended := make(chan struct{})
	go func() {
		isGone := waitForReader(pipe, int(end.Fd()))
		_, _, _ = unix.Close(pipe), end.Close(), ender.Close()
		close(ended)
		if isGone {
			gone()
		}
	}()
	return func() {
		_ = ender.Close()
		<-ended
	}
}

// waitForReader waits until a pipe has no reader, or until the pipe end has no writer. It reports the former.
func waitForReader(pipe, end int) (isGone bool) {
	fds := []unix.PollFd{{Fd: int32(pipe)}, {Fd: int32(end)}}
	for {
		_, err := unix.Poll(fds, -1)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && fds[0].Revents&unix.POLLERR != 0
		}
	}
}
