package mount

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hold makes a hold of the mount that fd is the root of: a clone that nobody sees.
// As long as it is there the file system does not end. So umount2(2), which
// otherwise returns after the end of the file system, does not wait for it, nor for
// the device or server which that needs.
//
// A clone is a mount of its own: it keeps the one that it was made of from being
// busy, which an open directory would not.
func hold(fd int) (int, error) {
	return unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
}

// patience is how long a guard waits for this process to close its descriptor: it
// does so at once, if it lives.
const patience = time.Minute

// letGo closes a hold, and the channel that it returns when the file system has
// ended, or lives on in other mounts. It waits for neither.
//
// The last to close a hold is a child, as it exits: when the file system's end is
// stuck for good, then that child is, and neither a thread of this process, which
// could not exit either, nor anything that this process has open. The kernel has
// taken memory and files from a process by the time that it lets go of mounts.
func letGo(fd int) <-chan struct{} {
	ended := make(chan struct{})
	guard, err := startGuard()
	closed := func() { closeFD(fd) }
	if err != nil { // no more processes, or no permission to make one
		go func() { defer close(ended); closed() }()
		return ended
	}
	closed() // the guard has it, too: this returns at once
	guard.release()
	if guard.ended(briefly) {
		_ = guard.reap()
		close(ended)
		return ended
	}
	go func() { defer close(ended); _ = guard.reap() }()
	return ended
}

// briefly is how long the end of a file system is waited for without a goroutine.
const briefly = 2 * time.Millisecond

// startGuard makes a child with a copy of all open files, which it closes, by
// exiting, when it is released or this process has died.
func startGuard() (*child, error) {
	c := &child{time: unix.NsecToTimespec(patience.Nanoseconds())}
	err := c.start(
		call{number: unix.SYS_PRCTL, a: unix.PR_SET_PDEATHSIG, b: uintptr(unix.SIGKILL)},
		call{
			number: unix.SYS_FUTEX, a: uintptr(unsafe.Pointer(&c.word)), b: futexWait,
			d: uintptr(unsafe.Pointer(&c.time)),
		},
	)
	return c, err
}

// Of linux/futex.h.
const (
	futexWait = 0
	futexWake = 1
)

// release ends a guard's wait.
func (c *child) release() {
	atomic.StoreUint32(&c.word, 1)
	_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&c.word)), futexWake, 1)
}
