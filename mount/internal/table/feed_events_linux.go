package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// An eventFeed receives events of fanotify about mounts (Linux 6.15). The kernel keeps unread
// events up to a limit, and then reports that events were lost. Renamed directories, changed
// options, and a new parent because of a mount beneath have no events.
//
// The event of a new mount is readable before the call that made the mount returns. The mount
// table may show the mount earlier.
type eventFeed struct {
	fd      int
	buf     []byte
	events  []Event // the last report
	cleanup runtime.Cleanup
}

// OpenEvents opens the feed by fanotify. It needs no mountinfo file.
func OpenEvents(string) (Feed, error) { return openEvents(eventsBuffer) }

// eventsBuffer is the size of one read.
const eventsBuffer = 8 << 10

// openEvents opens an events feed that reads size bytes at once.
func openEvents(size int) (*eventFeed, error) {
	const flags = unix.FAN_REPORT_MNT | unix.FAN_CLASS_NOTIF | unix.FAN_NONBLOCK | unix.FAN_CLOEXEC
	fd, err := unix.FanotifyInit(flags, 0)
	if err != nil {
		return nil, fmt.Errorf("fanotify: %w", err)
	}
	if err := markNamespace(fd); err != nil {
		kernel.Close(fd)
		return nil, fmt.Errorf("fanotify: %w", err)
	}
	e := &eventFeed{fd: fd, buf: make([]byte, max(size, 2*longestEvent))}
	e.cleanup = runtime.AddCleanup(e, func(fd int) { kernel.Close(fd) }, fd)
	return e, nil
}

// markNamespace subscribes the fanotify group to the mount namespace of the thread.
func markNamespace(group int) error {
	ns, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer kernel.Close(ns)
	return unix.FanotifyMark(group, unix.FAN_MARK_ADD|unix.FAN_MARK_MNTNS, unix.FAN_MNT_ATTACH|unix.FAN_MNT_DETACH, ns, "")
}

// ReadEvents reads all events. A read that left room for another event was the last.
func (e *eventFeed) ReadEvents() (events []Event, all bool, err error) {
	e.events = e.events[:0]
	for {
		n, err := unix.Read(e.fd, e.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return e.events, all, nil
		case err != nil:
			return nil, true, fmt.Errorf("read fanotify: %w", err)
		}
		var lost bool
		if e.events, lost, err = parseEvents(e.events, e.buf[:n]); err != nil {
			return nil, true, err
		}
		all = all || lost
		if len(e.buf)-n >= longestEvent {
			return e.events, all, nil
		}
	}
}

func (e *eventFeed) Close() {
	e.cleanup.Stop()
	kernel.Close(e.fd)
}

// The layout of events, see fanotify(7). An event about a mount holds one record.
const (
	eventHead    = 24  // struct fanotify_event_metadata
	recordHead   = 4   // struct fanotify_event_info_header
	recordMount  = 16  // struct fanotify_event_info_mnt
	longestEvent = 256 // beyond the longest event of the kernel
	mountRecord  = 7   // FAN_EVENT_INFO_TYPE_MNT
)

var errEvents = errors.New("not an event of fanotify")

// parseEvents appends the events in b to all. An event of an unknown kind may concern any
// mount, like lost events. The event of a moved mount reports an attach and a detach.
func parseEvents(all []Event, b []byte) (_ []Event, lost bool, err error) {
	for len(b) > 0 {
		if len(b) < eventHead {
			return nil, false, fmt.Errorf("%w: %d bytes", errEvents, len(b))
		}
		length, head := uint64(binary.NativeEndian.Uint32(b)), int(binary.NativeEndian.Uint16(b[6:]))
		version, mask := b[4], binary.NativeEndian.Uint64(b[8:])
		if version != unix.FANOTIFY_METADATA_VERSION || length > uint64(len(b)) || head < eventHead || uint64(head) > length {
			return nil, false, fmt.Errorf("%w: version %d, %d bytes of %d", errEvents, version, head, length)
		}
		id, ok := findMount(b[head:length])
		if ok {
			const both = unix.FAN_MNT_ATTACH | unix.FAN_MNT_DETACH
			all = append(all, Event{Mount: id, Gone: mask&both == unix.FAN_MNT_DETACH, Moved: mask&both == both})
		}
		lost = lost || !ok || mask&unix.FAN_Q_OVERFLOW != 0
		b = b[length:]
	}
	return all, lost, nil
}

// findMount returns the mount that the records of an event name.
func findMount(records []byte) (id uint64, ok bool) {
	for len(records) >= recordHead {
		length := int(binary.NativeEndian.Uint16(records[2:]))
		if length < recordHead || length > len(records) {
			return 0, false
		}
		if records[0] == mountRecord && length >= recordMount {
			return binary.NativeEndian.Uint64(records[8:]), true
		}
		records = records[length:]
	}
	return 0, false
}
