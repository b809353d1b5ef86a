package mounttest

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
)

// A Fault makes calls of a [Fake] slow, makes them fail, or lets a file system
// not answer.
type Fault struct {
	// Op is the operation that is hit: OpMount, OpUnmount, ... Empty: any.
	Op string
	// Path is the target (of the other operations the path) that is hit. With Hang
	// it is the mount point of the file system. Empty: any.
	Path string

	// Err is the cause of the error that the call returns: a syscall.Errno, say.
	// Nil: the call is only slow.
	Err error
	// Delay is how long the call hangs. It ends early, with an error, when the
	// context of the call does.
	Delay time.Duration
	// After lets the call do its work first, and hang and fail then. The error of
	// a call that changes something wraps mount.ErrUncertain. Without After a call
	// that fails has changed nothing.
	After bool

	// Hang is a dead server: the file systems of type FSType (empty: of any) do not
	// answer. A call that has to ask one of them waits, until its context ends or
	// the fault is cleared, and has changed nothing if its context has ended: a
	// Mount that makes such a file system, and whatever is about a path inside one.
	// Calls that only ask the mount table go on: the ones about its mount point
	// itself, List, MountsFrom. For Unmount the file system is in use by somebody
	// who waits for it for ever: mount.Config.Unmount says what becomes of it. By
	// UnmountQuarantine it is unmounted; otherwise it stays, with an error that wraps
	// mount.ErrNotAnswering. There is no waiting for UnmountPolicy.Grace.
	//
	// Err, Delay and After mean nothing with Hang.
	Hang   bool
	FSType string

	// Times is how many calls are hit before the fault is used up. Zero: all.
	Times int
}

// Inject adds a fault. A call is hit by the first fault that matches and is not
// used up. Requests that are refused for what they say (mount.InputError), and
// calls whose context has ended, do not count.
func (f *Fake) Inject(fault Fault) {
	if fault.Path != "" {
		fault.Path = path.Clean(slashed(fault.Path))
	}
	if fault.Times == 0 {
		fault.Times = -1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault)
}

// ClearFaults removes all faults. Calls that wait for a file system that hangs go
// on; those that are delayed are not woken.
func (f *Fake) ClearFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
	for _, waiter := range f.waiters {
		close(waiter)
	}
	f.waiters = nil
}

// faulty does the work of action as well as the injected faults let it.
func (f *Fake) faulty(ctx context.Context, action Action, work func() error) error {
	fault := f.take(action.Op, action.Target)
	if !fault.After {
		if err := fault.strike(ctx); err != nil {
			return err
		}
		return work()
	}
	if err := work(); err != nil {
		return err
	}
	err := fault.strike(ctx)
	if err != nil && (action.changes()) {
		return fmt.Errorf("%w: %w", mount.ErrUncertain, err)
	}
	return err
}

// take returns the fault that hits a call, or one that does nothing.
func (f *Fake) take(op, target string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		if fault.hits(op, target) {
			fault.Times--
			return *fault
		}
	}
	return Fault{}
}

// hits reports whether the fault is for a call. Times counts down to 0; one that
// began below it never gets there.
func (fault *Fault) hits(op, target string) bool {
	return !fault.Hang && fault.Times != 0 && fault.matches(op, target, fault.FSType)
}

func (fault *Fault) matches(op, p, fsType string) bool {
	return (fault.Op == "" || fault.Op == op) &&
		(fault.Path == "" || fault.Path == p) &&
		(fault.FSType == "" || fault.FSType == fsType)
}

// strike hangs, and returns what the call is to fail with.
func (fault Fault) strike(ctx context.Context) error {
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctxend.Error(ctx)
		}
	}
	return fault.Err
}

// changes reports whether the action is one that changes what is mounted.
func (a Action) changes() bool {
	return slices.Contains([]string{OpMount, OpUnmount, OpUnmountTree, OpIsolate}, a.Op)
}
