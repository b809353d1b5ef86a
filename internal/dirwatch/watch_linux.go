package dirwatch

import (
	"context"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// changeEvents selects the changes in a directory that matter.
	changeEvents = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE
	// moveEvents selects the changes after which the path may lead elsewhere.
	moveEvents = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	// lostEvents selects the events after which others may be lost.
	lostEvents = unix.IN_IGNORED | unix.IN_UNMOUNT | unix.IN_Q_OVERFLOW
)

// A watcher receives changes in a directory, and changes after which its path may lead to another
// directory.
type watcher struct {
	*os.File
	fd     int
	parent int    // the watch on the directory's parent
	name   string // of the directory in its parent
}

// Watch calls changed once the watch is set up, and after each change in the directory. It returns when
// ctx ends, when the directory cannot be watched, and, with [ErrMoved], when the path may lead to another
// directory. Elsewhere than on Linux it returns [errors.ErrUnsupported].
func Watch(ctx context.Context, dir string, changed Func) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	w := watcher{File: os.NewFile(uintptr(fd), "inotify"), fd: fd}
	defer func() { _ = w.Close() }()
	if err := w.watchDir(dir); err != nil {
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	changed(nil)
	events := make([]byte, 64<<10)
	for {
		n, err := w.Read(events)
		if err != nil {
			return err
		}
		seen := w.classifyEvents(events[:n])
		if seen.isMoved {
			return ErrMoved
		}
		if seen.isIn {
			changed(seen.removed)
		}
	}
}

// A summary combines the events of one read.
type summary struct {
	isIn    bool     // a change in the directory
	isMoved bool     // a change after which the path may lead to another directory
	removed []string // names of entries that have left the directory
}

// classifyEvents summarizes events.
func (w *watcher) classifyEvents(events []byte) (seen summary) {
	for len(events) >= unix.SizeofInotifyEvent {
		event := (*unix.InotifyEvent)(unsafe.Pointer(&events[0]))
		end := min(len(events), unix.SizeofInotifyEvent+int(event.Len))
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
		switch {
		case event.Mask&(moveEvents|lostEvents) != 0, event.Mask&unix.IN_ATTRIB != 0 && name == "":
			seen.isMoved = true
		case int(event.Wd) != w.parent:
			seen.isIn = true
			if event.Mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0 {
				seen.removed = append(seen.removed, name)
			}
		case name == w.name:
			seen.isMoved = true
		}
		events = events[end:]
	}
	return seen
}
