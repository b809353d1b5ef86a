package manifests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// inside are the changes in a directory that matter.
	inside = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE
	// outside are those after which the directory is not watched any more.
	outside = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED | unix.IN_UNMOUNT
)

var errGone = errors.New("the directory is gone")

// watch calls changed once it watches, and after each change in the directory. It
// returns when ctx ends, or when the directory cannot be watched, or not any more.
func watch(ctx context.Context, dir string, changed func()) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	defer func() { _ = f.Close() }()
	if _, err := unix.InotifyAddWatch(fd, dir, inside|outside|unix.IN_ONLYDIR); err != nil {
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	changed()
	events := make([]byte, 64<<10)
	for {
		n, err := f.Read(events)
		if err != nil {
			return err
		}
		changed()
		if isGone(events[:n]) {
			return errGone
		}
	}
}

func isGone(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		event := (*unix.InotifyEvent)(unsafe.Pointer(&events[0]))
		if event.Mask&outside != 0 {
			return true
		}
		events = events[min(len(events), unix.SizeofInotifyEvent+int(event.Len)):]
	}
	return false
}
