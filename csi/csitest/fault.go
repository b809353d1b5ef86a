package csitest

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A Fault makes calls of a [Driver] fail, hang or lie, or kills the driver.
type Fault struct {
	// Method and Volume select the affected calls. Empty: any. Volume is the volume's ID; of
	// CreateVolume it is the name.
	Method Method
	Volume string

	// Code is the code of the error that the call returns, with Message. OK: no error.
	Code    codes.Code
	Message string
	// After lets the call take effect first. Without After a failed call has no effect.
	After bool

	// Delay is the time that the call takes. Hang makes it last until the client gives up, the
	// driver is killed, or [Driver.ClearFaults] is called.
	Delay time.Duration
	Hang  bool
	// Late lets the driver complete a call with Delay or Hang although the client has given up.
	// Until then other calls for the volume fail with Aborted.
	Late bool

	// Crash kills the driver, as [Driver.Crash] does.
	Crash bool
	// Answer changes the response of a successful call: a driver that lies.
	Answer func(response proto.Message)

	// Times is the number of affected calls. Zero: all.
	Times int
}

// Inject adds a fault. A call is affected by the first matching fault that is not used up. Inject is
// safe for concurrent use.
func (d *Driver) Inject(fault Fault) {
	if fault.Times == 0 {
		fault.Times = -1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &fault)
}

// ClearFaults removes all faults, and ends their hangs and delays. It is safe for concurrent use.
func (d *Driver) ClearFaults() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
	close(d.cleared)
	d.cleared = make(chan struct{})
}

// takeFault returns the fault of a call, or the zero Fault. The caller holds d.mu.
func (d *Driver) takeFault(call *Call) Fault {
	for _, fault := range d.faults {
		if fault.Times != 0 && cmp.Or(fault.Method, call.Method) == call.Method && cmp.Or(fault.Volume, call.volume) == call.volume {
			fault.Times-- // a fault for all calls begins below 0, and stays there
			return *fault
		}
	}
	return Fault{}
}

// strike runs the fault of a call, and returns the error that the call returns because of it.
func (d *Driver) strike(ctx context.Context, l *life, cleared <-chan struct{}, fault Fault) error {
	if fault.Hang || fault.Delay > 0 {
		if err := fault.wait(ctx, l, cleared); err != nil {
			return err
		}
	}
	if fault.Crash {
		d.Crash()
		return errCrashed
	}
	if fault.Code == codes.OK {
		return nil
	}
	return status.Error(fault.Code, cmp.Or(fault.Message, "simulated"))
}

// wait waits for the end of a delay or a hang.
func (fault Fault) wait(ctx context.Context, l *life, cleared <-chan struct{}) error {
	var over <-chan time.Time
	if !fault.Hang {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		over = timer.C
	}
	gone := ctx.Done()
	if fault.Late {
		gone = nil
	}
	select {
	case <-over:
	case <-cleared:
	case <-l.ended:
		return errCrashed
	case <-gone:
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}
