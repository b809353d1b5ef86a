package mount

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// answers asks the file system that fd is of for its size, and reports whether it
// answers in time. The time begins with the first of the calls that ask about this
// mount, however many of them give up.
//
// An error is an answer, too, unless it says that a FUSE file system's daemon has
// died, that what is mounted is not on the server any more, or that the question was
// aborted, as it is when another mount of the file system is forced: that is asked
// once more. As long as the question has not arrived, or if no child can be made to
// ask it, the file system counts as one that answers: nothing is forced for a guess.
func (m *Mounter) answers(ctx context.Context, mount mountID, fd int, grace time.Duration) (bool, error) {
	var first time.Time
	for {
		q, err := m.leaving.asked.about(mount, func() (*child, error) { return ask(fd) })
		if err != nil {
			return true, nil //nolint:nilerr // see above
		}
		if first.IsZero() {
			first = q.since
		}
		answered, err := q.wait(ctx, time.Until(first.Add(grace)))
		switch {
		case err != nil:
			return false, err
		case !answered:
			return !q.child.arrived(), nil
		case !errors.Is(q.answer, errRestart):
			return !isDead(q.answer), nil
		case !time.Now().Before(first.Add(grace)):
			return false, nil
		}
		const pause = 5 * time.Millisecond
		if err := sleep(ctx, pause); err != nil {
			return false, err
		}
	}
}

// wait reports whether the answer comes in so much time.
func (q *question) wait(ctx context.Context, d time.Duration) (bool, error) {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-q.answered:
		return true, nil
	case <-ctx.Done():
		return false, ctxend.Error(ctx)
	case <-timer.C:
		return false, nil
	}
}

// isDead knows the errors of a FUSE file system without a daemon, and of an export
// that is gone.
func isDead(err error) bool {
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.ESTALE)
}

// ask starts a child that asks, and keeps nothing open but what it asks about.
func ask(fd int) (*child, error) {
	c := new(child)
	const last = ^uint32(0)
	calls := []call{{number: unix.SYS_CLOSE_RANGE, a: uintptr(fd) + 1, b: uintptr(last)}}
	if fd > 0 {
		calls = append(calls, call{number: unix.SYS_CLOSE_RANGE, b: uintptr(fd) - 1})
	}
	calls = append(calls,
		call{number: unix.SYS_CLOCK_GETTIME, a: unix.CLOCK_REALTIME, b: uintptr(unsafe.Pointer(&c.time))},
		call{number: unix.SYS_FSTATFS, a: uintptr(fd), b: uintptr(unsafe.Pointer(&c.statfs))},
	)
	return c, c.start(calls...)
}

// arrived reports whether an asking child has come to its question: closing a file
// may wait for another file system.
func (c *child) arrived() bool { return *(*int64)(unsafe.Pointer(&c.time.Sec)) != 0 }

// answer waits for the end of a child that asks. That its question was aborted
// (ERESTARTSYS) is too large a number for an exit status, and looks like success.
func (c *child) answer() error {
	err := c.reap()
	if err == nil && c.statfs.Type == 0 {
		return errRestart
	}
	return err
}
