package mount

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// eventFeed is told which mounts come and go, by fanotify (Linux 6.15). The kernel
// keeps the news until they are read, up to a limit, and then says that it lost
// some. It says nothing of renamed directories, of options, and of what another
// mount does to a parent.
//
// A mount is told of before the call that made it returns. The table may show it
// an instant earlier.
type eventFeed struct {
	fd      int
	buf     []byte
	cleanup runtime.Cleanup
}

func openEvents() (feed, error) { return openEventsSized(8 << 10) }

// openEventsSized reads so many bytes at once.
func openEventsSized(size int) (feed, error) {
	const flags = unix.FAN_REPORT_MNT | unix.FAN_CLASS_NOTIF | unix.FAN_NONBLOCK | unix.FAN_CLOEXEC
	fd, err := unix.FanotifyInit(flags, 0)
	if err != nil {
		return nil, fmt.Errorf("fanotify: %w", err)
	}
	if err := markNamespace(fd); err != nil {
		closeFD(fd)
		return nil, fmt.Errorf("fanotify: %w", err)
	}
	e := &eventFeed{fd: fd, buf: make([]byte, max(size, 2*longestEvent))}
	e.cleanup = runtime.AddCleanup(e, func(fd int) { closeFD(fd) }, fd)
	return e, nil
}

// markNamespace makes the group listen to the thread's mount namespace.
func markNamespace(group int) error {
	ns, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(ns)
	return unix.FanotifyMark(group, unix.FAN_MARK_ADD|unix.FAN_MARK_MNTNS, unix.FAN_MNT_ATTACH|unix.FAN_MNT_DETACH, ns, "")
}

// changes reads until the kernel has no more: a read that left room for another
// event was the last.
func (e *eventFeed) changes() (ids []uint64, all bool, err error) {
	for {
		n, err := unix.Read(e.fd, e.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return ids, all, nil
		case err != nil:
			return nil, true, fmt.Errorf("read fanotify: %w", err)
		}
		more, lost, err := parseEvents(e.buf[:n])
		if err != nil {
			return nil, true, err
		}
		ids, all = append(ids, more...), all || lost
		if len(e.buf)-n >= longestEvent {
			return ids, all, nil
		}
	}
}

func (e *eventFeed) close() {
	e.cleanup.Stop()
	closeFD(e.fd)
}

// The layout of fanotify(7)'s events, of which those about mounts have one record.
const (
	eventHead    = 24  // struct fanotify_event_metadata
	recordHead   = 4   // struct fanotify_event_info_header
	recordMount  = 16  // struct fanotify_event_info_mnt
	longestEvent = 256 // more than any
	recordIsOf   = 7   // FAN_EVENT_INFO_TYPE_MNT
)

var errEvents = errors.New("not an event of fanotify")

// parseEvents returns the mounts that the events are about. What it does not know
// may be about any mount: lost.
func parseEvents(b []byte) (ids []uint64, lost bool, err error) {
	for len(b) > 0 {
		if len(b) < eventHead {
			return nil, false, fmt.Errorf("%w: %d bytes", errEvents, len(b))
		}
		length, head := uint64(binary.NativeEndian.Uint32(b)), int(binary.NativeEndian.Uint16(b[6:]))
		version, mask := b[4], binary.NativeEndian.Uint64(b[8:])
		if version != unix.FANOTIFY_METADATA_VERSION || length > uint64(len(b)) || head < eventHead || uint64(head) > length {
			return nil, false, fmt.Errorf("%w: version %d, %d bytes of %d", errEvents, version, head, length)
		}
		id, ok := mountOfEvent(b[head:length])
		if ok {
			ids = append(ids, id)
		}
		lost = lost || !ok || mask&unix.FAN_Q_OVERFLOW != 0
		b = b[length:]
	}
	return ids, lost, nil
}

// mountOfEvent finds the record that names the mount.
func mountOfEvent(records []byte) (id uint64, ok bool) {
	for len(records) >= recordHead {
		length := int(binary.NativeEndian.Uint16(records[2:]))
		if length < recordHead || length > len(records) {
			return 0, false
		}
		if records[0] == recordIsOf && length >= recordMount {
			return binary.NativeEndian.Uint64(records[8:]), true
		}
		records = records[length:]
	}
	return 0, false
}
