package manifests

import (
	"context"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// inside are the changes in a directory that matter.
	inside = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE
	// itself are those after which its name may lead elsewhere.
	itself = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	// unknown are those after which some are not told.
	unknown = unix.IN_IGNORED | unix.IN_UNMOUNT | unix.IN_Q_OVERFLOW
)

// A watcher is told of changes in a directory, and of those after which its path leads
// to another one.
type watcher struct {
	*os.File
	fd     int
	parent int    // the watch on the directory's parent
	name   string // the directory's in it
}

// watch calls changed once it watches, and after each change in the directory. It
// returns when ctx ends, when the directory cannot be watched, and, with errMoved, when
// its path may have come to lead to another one.
func watch(ctx context.Context, dir string, changed func()) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	w := watcher{File: os.NewFile(uintptr(fd), "inotify"), fd: fd}
	defer func() { _ = w.Close() }()
	if err := w.add(dir); err != nil {
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	changed()
	events := make([]byte, 64<<10)
	for {
		n, err := w.Read(events)
		if err != nil {
			return err
		}
		isIn, isMoved := w.look(events[:n])
		if isMoved {
			return errMoved
		}
		if isIn {
			changed()
		}
	}
}

// look reports whether something has changed in the directory, and whether its path may
// lead to another one now.
func (w *watcher) look(events []byte) (isIn, isMoved bool) {
	for len(events) >= unix.SizeofInotifyEvent {
		event := (*unix.InotifyEvent)(unsafe.Pointer(&events[0]))
		end := min(len(events), unix.SizeofInotifyEvent+int(event.Len))
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
		switch {
		case event.Mask&(itself|unknown) != 0, event.Mask&unix.IN_ATTRIB != 0 && name == "":
			isMoved = true
		case int(event.Wd) != w.parent:
			isIn = true
		case name == w.name:
			isMoved = true
		}
		events = events[end:]
	}
	return isIn, isMoved
}
