package volumetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/volumekit/volumekit/volume"
)

// A Fault makes calls of a [FakePlugin] slow, or makes them fail.
type Fault struct {
	// Method is the method that is hit.
	Method Method
	// Err is the error that the call returns, wrapped. Nil: it is only slow.
	Err error
	// Delay is how long the call hangs. It ends early, with an error, when the
	// context of the call does.
	Delay time.Duration
	// After lets the call do its work first, and hang and fail then. The error
	// wraps volume.ErrUncertain. Without After a call that fails has changed
	// nothing.
	After bool
	// Times is how many calls are hit before the fault is used up. Zero: all.
	Times int
}

// calls counts the calls of a plugin and holds what is to go wrong.
type calls struct {
	mu     sync.Mutex // guards the rest; never held while a call is delayed
	counts map[Method]int
	faults []*Fault
}

// Inject adds a fault. A call is hit by the first fault of its method that is
// not used up. Safe for concurrent use.
func (p *FakePlugin) Inject(fault Fault) {
	if fault.Times == 0 {
		fault.Times = -1
	}
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	p.calls.faults = append(p.calls.faults, &fault)
}

// ClearFaults removes all faults. Calls that hang already are not woken. Safe
// for concurrent use.
func (p *FakePlugin) ClearFaults() {
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	p.calls.faults = nil
}

// Calls returns how often a method was called, with or without success. Safe
// for concurrent use.
func (p *FakePlugin) Calls(method Method) int {
	p.calls.mu.Lock()
	defer p.calls.mu.Unlock()
	return p.calls.counts[method]
}

// call counts a call and does its work as well as the faults let it.
func (p *FakePlugin) call(ctx context.Context, method Method, work func() error) error {
	fault := p.calls.take(method)
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
		return fmt.Errorf("%s: %w: %w", method, volume.ErrUncertain, err)
	}
	return nil
}

// count is call for a method that has nothing to do.
func (p *FakePlugin) count(method Method) error {
	return p.call(context.Background(), method, func() error { return nil })
}

// take counts a call and returns the fault that hits it, or one that does nothing.
func (c *calls) take(method Method) Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[Method]int{}
	}
	c.counts[method]++
	for _, fault := range c.faults {
		if fault.Method == method && fault.Times != 0 {
			fault.Times-- // of one for all calls it began below 0, and stays there
			return *fault
		}
	}
	return Fault{}
}

func (fault Fault) strike(ctx context.Context) error {
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fault.Err
}
