package table

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"golang.org/x/sys/unix"
)

// Watch calls changed once, and after each change of the mount table, until ctx ends. It waits
// in poll(2) on the mountinfo file (Linux 2.6.30, proc_pid_mountinfo(5)).
func Watch(ctx context.Context, changed func()) error {
	table, err := unix.Open(mountinfo.Path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mountinfo: %w: %w", err, errNoFeed)
	}
	defer kernel.Close(table)
	return pollUntilEnd(ctx, unix.PollFd{Fd: int32(table), Events: unix.POLLPRI}, func() error {
		changed()
		return nil
	})
}

// A Placement is the current place of a mount.
type Placement struct {
	ID uint64 // unique mount ID
	// Parent is the unique mount ID of the parent, and Target the mount point. Both are zero
	// for a detached mount. Target is empty for a mount outside the process's root.
	Parent uint64
	Target string
}

// WatchMounts calls changed once, and after mounts were attached, detached or moved, until ctx
// ends. all reports that any mount may have changed. It opens an events feed of its own, since
// the cache consumes the events of its feed.
func WatchMounts(ctx context.Context, changed func(mounts []Placement, all bool)) error {
	feed, err := openEvents(eventsBuffer)
	if err != nil {
		requires := "Linux 6.15"
		if errors.Is(err, unix.EPERM) {
			requires = "CAP_SYS_ADMIN in the user namespace of the mount namespace"
		}
		return fmt.Errorf("mount events: requires %s: %w: %w", requires, errors.ErrUnsupported, err)
	}
	defer feed.Close()
	first := true
	var reader record.Reader
	return pollUntilEnd(ctx, unix.PollFd{Fd: int32(feed.fd), Events: unix.POLLIN}, func() error {
		events, all, err := feed.ReadEvents()
		if err != nil {
			return err
		}
		all = all || first
		first = false
		var mounts []Placement
		seen := make(map[uint64]bool, len(events))
		for _, e := range events {
			all = all || e.Moved
			if seen[e.Mount] { // the current place is known
				continue
			}
			seen[e.Mount] = true
			mount, err := readPlacement(&reader, e.Mount)
			if err != nil {
				return err
			}
			mounts = append(mounts, mount)
		}
		changed(mounts, all)
		return nil
	})
}

// readPlacement returns the current place of a mount.
func readPlacement(r *record.Reader, id uint64) (Placement, error) {
	f, err := r.Read(id, record.WantMount|record.WantPoint)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Placement{ID: id}, nil
	case err != nil:
		return Placement{}, err
	}
	return Placement{ID: id, Parent: f.Parent, Target: string(f.MountPoint())}, nil
}

// pollUntilEnd calls ready once, and each time the file is ready, until ctx ends. An eventfd
// ends the wait, which occupies a thread.
func pollUntilEnd(ctx context.Context, file unix.PollFd, ready func() error) error {
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_, _ = unix.Write(end, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // a nonzero number in each byte order
	})
	defer func() {
		if !stop() {
			<-ended
		}
		kernel.Close(end)
	}()
	return pollBoth(ctx, file, end, ready)
}

// pollBoth calls ready once, and each time the file is ready, until ctx has ended and the end
// descriptor is readable.
func pollBoth(ctx context.Context, file unix.PollFd, end int, ready func() error) error {
	fds := []unix.PollFd{file, {Fd: int32(end), Events: unix.POLLIN}}
	err := ready()
	for err == nil && ctx.Err() == nil {
		_, failed := unix.Poll(fds, -1)
		switch {
		case errors.Is(failed, unix.EINTR):
		case failed != nil || fds[0].Revents&unix.POLLNVAL != 0:
			return fmt.Errorf("poll mountinfo: %w", errors.Join(failed, errNoFeed))
		case fds[0].Revents != 0:
			err = ready()
		}
	}
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}
