package child

import (
	"errors"
	"runtime"
	"time"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// A process is a child that makes system calls and exits. Blocked calls block neither a
// thread of the parent nor its exit.
//
// It is no copy of the parent, which would cost time in proportion to memory: it shares the
// memory, as after vfork(2), runs no Go code, writes only the results of its calls, and
// handles no signal. Its descriptors are copies. Its exit sends the parent no signal, and
// only a wait for all kinds of children (__WALL) reaps it.
type process struct {
	pid   int
	pidfd int32
	calls []call
	// Memory for the arguments of the calls, valid until the exit.
	word   uint32
	time   unix.Timespec
	statfs unix.Statfs_t
}

// A call is a system call and its arguments; the third is always 0.
type call struct{ number, a, b, _, d uintptr }

// lastCall ends the list.
const lastCall = ^uintptr(0)

// closeOthers lists the calls by which a child closes all descriptors except fd (Linux 5.9;
// earlier kernels keep them until the exit). A copy of a descriptor in a mount keeps that
// mount busy.
func closeOthers(fd int) []call {
	const last = ^uint32(0)
	calls := []call{{number: unix.SYS_CLOSE_RANGE, a: uintptr(fd) + 1, b: uintptr(last)}}
	if fd > 0 {
		calls = append(calls, call{number: unix.SYS_CLOSE_RANGE, b: uintptr(fd) - 1})
	}
	return calls
}

// start creates the child with all signals blocked.
func (p *process) start(calls ...call) error {
	p.calls = append(calls, call{number: lastCall})
	// The child inherits the signal mask of the thread that creates it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return err
	}
	pid := int(spawn(unix.CLONE_VM|unix.CLONE_PIDFD, &p.pidfd, &p.calls[0]))
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); err != nil {
		return err
	}
	if pid < 0 {
		return unix.Errno(-pid)
	}
	p.pid = pid
	return nil
}

// forever is a time to wait.
const forever time.Duration = -1

// awaitExit waits for the exit, at most for the given time in whole milliseconds, and
// reports whether the child has exited.
func (p *process) awaitExit(wait time.Duration) bool {
	poll := []unix.PollFd{{Fd: p.pidfd, Events: unix.POLLIN}}
	milliseconds := -1
	if wait >= 0 {
		milliseconds = int(wait.Milliseconds())
	}
	for {
		n, err := unix.Poll(poll, milliseconds)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// reap waits for the exit and returns the error of the last call.
func (p *process) reap() error {
	p.awaitExit(forever)
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(p.pid, &status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	kernel.Close(int(p.pidfd))
	runtime.KeepAlive(p)
	if status.Signaled() {
		return unix.EINTR
	}
	if code := status.ExitStatus(); code > 0 {
		return unix.Errno(code)
	}
	return nil
}
