package child

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// HoldSuperblock returns a hold of the mount with the root fd: a detached clone. As long as
// it is open the superblock does not end, so umount2(2) waits neither for the end nor for
// the device or server that the end needs.
//
// A clone is a mount of its own. Unlike an open directory, it does not keep the original
// busy.
func HoldSuperblock(fd int) (hold int, err error) {
	return unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
}

// guardTimeout bounds a guard's wait for its release, which follows at once while the
// parent lives.
const guardTimeout = time.Minute

// ReleaseSuperblock closes a hold and waits for nothing. The channel is closed when the
// superblock has ended, or lives on in other mounts.
//
// The exit of a guard closes the last descriptor. If the superblock's end never completes,
// only the guard is stuck: no thread of this process, which could not exit either, and none
// of its descriptors. The kernel has released an exiting process's memory and files before
// its mounts.
func ReleaseSuperblock(hold int) <-chan struct{} {
	ended := make(chan struct{})
	guard, err := startGuard(hold)
	closeHold := func() { kernel.Close(hold) }
	if err != nil { // no permission or resources for a process
		go func() { defer close(ended); closeHold() }()
		return ended
	}
	closeHold() // returns at once: the guard has a copy
	guard.release()
	if guard.awaitExit(shortWait) {
		_ = guard.reap()
		close(ended)
		return ended
	}
	go func() { defer close(ended); _ = guard.reap() }()
	return ended
}

// shortWait bounds the wait for a superblock's end without a goroutine.
const shortWait = 2 * time.Millisecond

// startGuard starts a guard with a copy of the hold. The guard exits after its release, or
// with its parent.
func startGuard(hold int) (*process, error) {
	p := &process{time: unix.NsecToTimespec(guardTimeout.Nanoseconds())}
	err := p.start(append(closeOthers(hold),
		call{number: unix.SYS_PRCTL, a: unix.PR_SET_PDEATHSIG, b: uintptr(unix.SIGKILL)},
		call{
			number: unix.SYS_FUTEX, a: uintptr(unsafe.Pointer(&p.word)), b: futexWait,
			d: uintptr(unsafe.Pointer(&p.time)),
		},
	)...)
	return p, err
}

// Of linux/futex.h.
const (
	futexWait = 0
	futexWake = 1
)

// release ends a guard's wait.
func (p *process) release() {
	atomic.StoreUint32(&p.word, 1)
	_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.word)), futexWake, 1)
}
