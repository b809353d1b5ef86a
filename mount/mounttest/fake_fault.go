package mounttest

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
)

// A Fault makes calls of a [Fake] slow, makes them fail, or makes a file system not answer.
type Fault struct {
	// Op is the affected operation: OpMount, OpUnmount, ... Empty: any.
	Op string
	// Path is the affected target, or path of a query. With Hang it is the mount point of
	// the file system. Empty: any.
	Path string

	// Err is the cause of the error that the call returns, such as a syscall.Errno. Nil:
	// the call is only slow.
	Err error
	// Delay is the time for which the call hangs. It ends early, with an error, when the
	// context of the call does.
	Delay time.Duration
	// After lets the call take effect first, and hang and fail then. The error of a call
	// that changes mounts wraps mount.ErrUncertain. Without After a failed call has changed
	// nothing.
	After bool

	// Hang is a dead server: the file systems of type FSType (empty: of any) do not answer.
	// A call that needs an answer of one of them waits until its context ends or the fault
	// is cleared: a Mount that creates such a file system, and calls about paths inside
	// one. If its context ends it has changed nothing. Calls that read the mount table alone
	// work: those about the mount point itself, List, MountsFrom. For Unmount the file
	// system is in use for ever, and mount.Config.Unmount decides: UnmountQuarantine
	// unmounts it; otherwise it stays, with an error that wraps mount.ErrNotAnswering.
	// UnmountPolicy.Grace is not waited for.
	//
	// Err, Delay and After have no effect with Hang.
	Hang   bool
	FSType string

	// Times is the number of calls that the fault affects. Zero: all.
	Times int
}

// Inject adds a fault. A call is affected by the first matching fault that is not used up.
// Refused requests (mount.InputError), and calls whose context has ended, do not count.
//
// Inject panics if the fault can match no call, since the test would pass without the fault: Op is none of
// the constants; Path is not absolute, or not empty for OpList or OpMountsFrom.
func (f *Fake) Inject(fault Fault) {
	fault.check()
	if fault.Path != "" {
		fault.Path = path.Clean(tablepath.Of(fault.Path))
	}
	if fault.Times == 0 {
		fault.Times = -1
	}
	f.lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault)
}

func (fault *Fault) check() {
	switch {
	case fault.Op != "" && !slices.Contains(operations, fault.Op):
		panic(fmt.Sprintf("mounttest: Fault.Op %q: must be a constant, such as OpMount", fault.Op))
	case fault.Path != "" && !path.IsAbs(tablepath.Of(fault.Path)):
		panic(fmt.Sprintf("mounttest: Fault.Path %q: must be absolute", fault.Path))
	case fault.Path != "" && (fault.Op == OpList || fault.Op == OpMountsFrom):
		panic(fmt.Sprintf("mounttest: Fault.Path %q: must be empty, as Fault.Op %q has no path", fault.Path, fault.Op))
	}
}

// ClearFaults removes all faults. Calls that wait for a hanging file system continue; delayed
// calls finish their delay.
func (f *Fake) ClearFaults() {
	f.lock()
	defer f.mu.Unlock()
	f.faults = nil
	for _, waiter := range f.waiters {
		close(waiter)
	}
	f.waiters = nil
}

// runWithFaults runs the work of action under the injected faults.
func (f *Fake) runWithFaults(ctx context.Context, action Action, work func() error) error {
	fault := f.nextFault(action.Op, action.Target)
	if !fault.After {
		if err := fault.apply(ctx); err != nil {
			return err
		}
		return work()
	}
	if err := work(); err != nil {
		return err
	}
	err := fault.apply(ctx)
	if err != nil && (action.changes()) {
		return mount.AsUncertain(err)
	}
	return err
}

// nextFault returns the fault for a call, or the zero Fault, and counts it.
func (f *Fake) nextFault(op, target string) Fault {
	f.lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		if fault.affects(op, target) {
			fault.Times--
			return *fault
		}
	}
	return Fault{}
}

// affects reports whether the fault affects a call. Times counts down to 0; a negative one
// never ends.
func (fault *Fault) affects(op, target string) bool {
	return !fault.Hang && fault.Times != 0 && fault.matches(op, target, fault.FSType)
}

func (fault *Fault) matches(op, p, fsType string) bool {
	return (fault.Op == "" || fault.Op == op) &&
		(fault.Path == "" || fault.Path == p) &&
		(fault.FSType == "" || fault.FSType == fsType)
}

// apply waits for the delay of the fault and returns the error of the fault, which may be
// nil. If ctx ends during the delay, apply returns the error of ctx.
func (fault Fault) apply(ctx context.Context) error {
	if fault.Delay > 0 {
		if err := ctxend.Sleep(ctx, fault.Delay); err != nil {
			return err
		}
	}
	return fault.Err
}

// changes reports whether the action changes mounts.
func (a Action) changes() bool {
	return slices.Contains([]string{OpMount, OpUnmount, OpUnmountTree, OpIsolate}, a.Op)
}
