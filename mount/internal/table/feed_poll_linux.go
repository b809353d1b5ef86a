package table

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// A pollFeed reports that the table has changed, without naming mounts (Linux 2.6.30,
// proc_pid_mountinfo(5)). It belongs to the mount namespace and the root of the thread that
// opened it.
type pollFeed struct {
	fd      int
	cleanup runtime.Cleanup
}

// OpenPoll opens the feed by poll(2) on the mountinfo file.
func OpenPoll(table string) (Feed, error) {
	fd, err := unix.Open(table, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("mountinfo: %w", err)
	}
	p := &pollFeed{fd: fd}
	p.cleanup = runtime.AddCleanup(p, func(fd int) { kernel.Close(fd) }, fd)
	return p, nil
}

func (p *pollFeed) ReadEvents() (_ []Event, all bool, err error) {
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

func (p *pollFeed) Close() {
	p.cleanup.Stop()
	kernel.Close(p.fd)
}
