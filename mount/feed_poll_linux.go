package mount

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// pollFeed asks whether the table has changed, not what (Linux 2.6.30,
// proc_pid_mountinfo(5)). It is of the mount namespace and the root that the
// thread had that opened it.
type pollFeed struct {
	fd      int
	cleanup runtime.Cleanup
}

func openPoll() (feed, error) {
	fd, err := unix.Open(tablePath, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("mountinfo: %w", err)
	}
	p := &pollFeed{fd: fd}
	p.cleanup = runtime.AddCleanup(p, func(fd int) { closeFD(fd) }, fd)
	return p, nil
}

func (p *pollFeed) changes() (_ []uint64, all bool, err error) {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLPRI}}
	for {
		_, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || fds[0].Revents&unix.POLLNVAL != 0 {
			return nil, true, fmt.Errorf("poll mountinfo: %w", errors.Join(err, errNoFeed))
		}
		return nil, fds[0].Revents != 0, nil
	}
}

func (p *pollFeed) close() {
	p.cleanup.Stop()
	closeFD(p.fd)
}
