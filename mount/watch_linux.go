package mount

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// watch waits in poll(2) for the mount table (Linux 2.6.30, proc_pid_mountinfo(5)), and
// for an eventfd by which ctx ends it. The thread that is taken by that does nothing.
func (m *Mounter) watch(ctx context.Context, changed func()) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	table, err := unix.Open(tablePath, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mountinfo: %w", errors.Join(err, errNoFeed))
	}
	defer closeFD(table)
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_, _ = unix.Write(end, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // any number but 0, in any order of bytes
	})
	defer func() {
		if !stop() {
			<-ended
		}
		closeFD(end)
	}()
	return pollTable(ctx, table, end, changed)
}

func pollTable(ctx context.Context, table, end int, changed func()) error {
	fds := []unix.PollFd{{Fd: int32(table), Events: unix.POLLPRI}, {Fd: int32(end), Events: unix.POLLIN}}
	for changed(); ctx.Err() == nil; {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || fds[0].Revents&unix.POLLNVAL != 0:
			return fmt.Errorf("poll mountinfo: %w", errors.Join(err, errNoFeed))
		case fds[0].Revents != 0:
			changed()
		}
	}
	return context.Cause(ctx)
}
