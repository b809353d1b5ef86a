package cli

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// waitForHangup waits until a pipe has no reader. It returns false for other files.
func waitForHangup(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	for {
		_, err := unix.Poll(fds, -1)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && fds[0].Revents&unix.POLLERR != 0
		}
	}
}
