package volumetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
)

// A Fault makes calls of a [FakePlugin] slow, or makes them fail.
type Fault struct {
	// Method is the method whose calls are affected.
	Method Method
	// Err is the error that the call returns, wrapped. Nil: it is only slow. The error
	// keeps its kind: a plain error, such as errors.New returns, is final, and the caller
	// may give up. Wrap volume.ErrTransient for a fault after which the caller retries,
	// volume.ErrUncertain for one that may have changed the volume. With After every error
	// is uncertain.
	Err error
	// Delay is the time for which the call hangs. It ends early, with an error, when the
	// context of the call does. The receivers of package util/progress get it as a step
	// "delay" of the method.
	Delay time.Duration
	// After lets the call do its work before it hangs and fails. The error wraps
	// volume.ErrUncertain. Without After a failed call has changed nothing.
	After bool
	// Times is the number of affected calls. Zero: all.
	Times int
}

// calls counts the calls of a plugin and has its faults.
type calls struct {
	mu     sync.Mutex // guards the rest; never held while a call is delayed
	counts map[Method]int
	faults []*Fault
}

// Inject adds a fault. A call is affected by the first fault of its method that is not used
// up. Inject is safe for concurrent use.
func (p *FakePlugin) Inject(fault Fault) {
	if fault.Times == 0 {
		fault.Times = -1
	}
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	p.calls.faults = append(p.calls.faults, &fault)
}

// ClearFaults removes all faults. Calls that hang already continue to hang. It is safe for
// concurrent use.
func (p *FakePlugin) ClearFaults() {
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	p.calls.faults = nil
}

// Calls returns the number of calls of a method, successful or not. It is safe for concurrent
// use.
func (p *FakePlugin) Calls(method Method) int {
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	return p.calls.counts[method]
}

// call counts a call and runs its work, with the faults of the method.
func (p *FakePlugin) call(ctx context.Context, method Method, work func() error) error {
	fault := p.calls.countCall(method)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
	if !fault.After {
		if err := fault.strike(ctx); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return work()
	}
	if err := work(); err != nil {
		return err
	}
	if err := fault.strike(ctx); err != nil {
		return volume.AsUncertain(fmt.Errorf("%s: %w", method, err))
	}
	return nil
}

// count is call for a method without work.
func (p *FakePlugin) count(method Method) error {
	return p.call(context.Background(), method, func() error { return nil })
}

// countCall counts a call and returns its fault, or the zero Fault.
func (c *calls) countCall(method Method) Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[Method]int{}
	}
	c.counts[method]++
	for _, fault := range c.faults {
		if fault.Method == method && fault.Times != 0 {
			fault.Times-- // a fault for all calls begins below 0, and stays there
			return *fault
		}
	}
	return Fault{}
}

func (fault Fault) strike(ctx context.Context) error {
	if fault.Delay > 0 {
		defer progress.Begin(ctx, progress.Step{Name: "delay", Object: string(fault.Method)})()
		if err := ctxend.Sleep(ctx, fault.Delay); err != nil {
			return err
		}
	}
	return fault.Err
}
