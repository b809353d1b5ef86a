package disk

import (
	"cmp"
	"context"
	"os"
	"sync/atomic"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/progress"
)

// A Device is an open device, for the work of [Disks.Use]. The work calls its methods one
// after the other.
type Device struct {
	disks   *Disks
	handle  Handle
	op      string       // of the Disks; empty: that of the method
	changed *atomic.Bool // a program, a write or a mount may have begun
	calls   keylock.Map  // one at a time, which may be abandoned
	claimed []func()
}

// Info returns the facts from the time of opening.
func (d *Device) Info() Info { return d.handle.Info() }

// File returns the open file of the device, for a loop device on it. It is closed with the
// device.
func (d *Device) File() *os.File { return d.handle.File() }

// oneCall is the key in Device.calls.
const oneCall = ""

// close waits for the end of an abandoned call, which still uses the device, and then
// releases the device.
func (d *Device) close() {
	if unlock, err := d.calls.Lock(context.Background(), oneCall); err == nil {
		defer unlock()
	}
	for _, unlock := range d.claimed {
		unlock()
	}
	_ = d.handle.Close()
}

// await runs a call that may block, until ctx ends. A call after an abandoned one waits for
// the end of that.
func await[T any](ctx context.Context, d *Device, op string, work func() (T, error)) (T, error) {
	value, began, err := keylock.Await(ctx, d.calls.Key(oneCall), ctxend.Plugin, work, nil)
	if !began {
		err = ctxend.Error(ctx)
	}
	return value, d.failed(op, err)
}

// change is await for a call that may change the device, and reports it as a step named op. If ctx ends first,
// the error wraps mount.ErrUncertain.
func (d *Device) change(ctx context.Context, op string, work func() error) error {
	if ctx.Err() != nil {
		return d.failed(op, ctxend.Error(ctx))
	}
	// Before the call reads the state of ctx once more: Use, which reads changed after the end of ctx, either
	// finds it set, or ctx has ended before the call begins, and it does not begin.
	d.changed.Store(true)
	ended, began, err := keylock.Await(ctx, d.calls.Key(oneCall), ctxend.Plugin, func() (ended bool, err error) {
		defer d.beginStep(ctx, op)()
		return true, work()
	}, nil)
	switch {
	case !began:
		err = ctxend.Error(ctx)
	case !ended:
		err = uncertain(err)
	}
	return d.failed(op, err)
}

// beginStep begins a step of package progress, named op, for the device.
func (d *Device) beginStep(ctx context.Context, op string) (end func()) {
	return progress.Begin(ctx, progress.Step{Name: op, Object: d.Info().Path})
}

func (d *Device) failed(op string, err error) error {
	return failed(cmp.Or(d.op, op), d.Info().Path, err)
}

// uncertain returns err as an uncertain error; nil stays nil.
func uncertain(err error) error {
	if err == nil {
		return nil
	}
	return mount.AsUncertain(err)
}

// Claim waits until no other call has claimed the device, its disk, one of its partitions
// or another device of its stack. The claim ends with the work of [Disks.Use].
func (d *Device) Claim(ctx context.Context) error {
	stack := d.Info().Stack
	if len(stack) == 0 {
		stack = []string{d.Info().Path}
	}
	for _, part := range stack {
		unlock, err := d.disks.claims.Lock(ctx, part)
		if err != nil {
			return d.failed("claim", ctxend.Error(ctx))
		}
		d.claimed = append(d.claimed, unlock)
	}
	return nil
}

// InUse reports whether the device is in use. A loop device named ignore that was detached
// and ends with its last user does not count.
func (d *Device) InUse(ctx context.Context, ignore string) (bool, error) {
	return await(ctx, d, "query", func() (bool, error) { return d.handle.InUse(ctx, ignore) })
}

// IsBelowLoop reports whether a loop device is on the device, on its disk or on one of its
// partitions. A loop device does not keep others from mounting the device.
func (d *Device) IsBelowLoop(ctx context.Context) (bool, error) {
	if d.Info().Number == 0 {
		return false, nil
	}
	return await(ctx, d, "query", func() (bool, error) { return isBelowLoop(ctx, d.Info(), "") })
}

// checkUnused claims the device, and fails with ErrInUse if the device is in use.
func (d *Device) checkUnused(ctx context.Context) error {
	if err := d.Claim(ctx); err != nil {
		return err
	}
	used, err := d.InUse(ctx, "")
	if err == nil && used {
		err = d.failed("query", ErrInUse)
	}
	return err
}

// Probe reads the content of the device.
func (d *Device) Probe(ctx context.Context) (Content, error) {
	return await(ctx, d, "probe", func() (Content, error) { return probe(d.handle) })
}

// CheckNode fails with ErrSwapped if the path leads to another device now, or the device
// has another medium.
func (d *Device) CheckNode(ctx context.Context) error {
	_, err := await(ctx, d, "identify", func() (struct{}, error) { return struct{}{}, d.checkNode() })
	return err
}

func (d *Device) checkNode() error {
	was := d.Info()
	now, err := d.disks.devices.Identify(was.Path)
	if err != nil {
		return err
	}
	if now.Number != was.Number || now.Identity.Replaces(was.Identity) {
		return ErrSwapped
	}
	return nil
}
