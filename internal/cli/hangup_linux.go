package cli

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// hangupOf returns a function that waits until a pipe has no reader, and reports whether it has none.
// It is nil for other files. The function does not use f, which may be closed meanwhile.
func hangupOf(f *os.File) (wait func() bool) {
	info, err := f.Stat()
	if err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return nil
	}
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	return func() bool {
		for {
			_, err := unix.Poll(fds, -1)
			if !errors.Is(err, unix.EINTR) {
				return err == nil && fds[0].Revents&unix.POLLERR != 0
			}
		}
	}
}
