package mount

import (
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A child is a process that makes a few system calls and exits. What the kernel
// holds up in there holds up nothing here, not even the end of this process.
//
// It is no copy of this process, which would take as long as there is memory to
// copy: it shares the memory, as after vfork(2), runs no Go, writes nothing but
// what its calls return, and has no signal handled. Its open files are a copy of
// this process's. It exits without a signal to this process, and only a wait for
// all kinds of children (__WALL) sees it.
type child struct {
	pid   int
	pidfd int32
	calls []call
	// What the calls point to; the child may need it until it has ended.
	word   uint32
	time   unix.Timespec
	statfs unix.Statfs_t
}

// A call is a system call and its arguments; the third is always 0.
type call struct{ number, a, b, _, d uintptr }

// lastCall ends the list.
const lastCall = ^uintptr(0)

// start makes the child.
func (c *child) start(calls ...call) error {
	c.calls = append(calls, call{number: lastCall})
	// The child has the signal mask of the thread that makes it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return err
	}
	pid := int(spawn(unix.CLONE_VM|unix.CLONE_PIDFD, &c.pidfd, &c.calls[0]))
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); err != nil {
		return err
	}
	if pid < 0 {
		return unix.Errno(-pid)
	}
	c.pid = pid
	return nil
}

// forever is a time to wait.
const forever time.Duration = -1

// ended waits so long for the child's end, in whole milliseconds, and tells
// whether it has come.
func (c *child) ended(wait time.Duration) bool {
	poll := []unix.PollFd{{Fd: c.pidfd, Events: unix.POLLIN}}
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

// reap waits for the child's end and returns its last call's error.
func (c *child) reap() error {
	c.ended(forever)
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(c.pid, &status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	closeFD(int(c.pidfd))
	runtime.KeepAlive(c)
	if status.Signaled() {
		return unix.EINTR
	}
	if code := status.ExitStatus(); code > 0 {
		return unix.Errno(code)
	}
	return nil
}
