package disk

import (
	"cmp"
	"context"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// Config is what [New] needs. The zero value serves all calls but those that mount.
type Config struct {
	// Mounter mounts. FormatAndMount, Grow and NeedsGrow require it.
	Mounter mount.Interface
	// Devices opens block devices. Nil: those of the kernel.
	Devices Devices
	// Programs runs mkfs, fsck and the programs that grow. Nil: those of [SystemPrograms].
	Programs Programs
	// RefuseLinks refuses the path of a device that is a symbolic link, or leads through
	// one. Otherwise links are followed once, at the start of a call.
	RefuseLinks bool
}

// Disks formats, checks, mounts and grows devices. It is safe for concurrent use. Make one
// per process: its locks keep two calls from one device. Other processes with a Disks cannot
// format a device at the same time, if both have the same /dev; other programs are kept away
// by exclusive opens alone. The zero Disks refuses every call with an [*InputError].
type Disks struct {
	mounter     mount.Interface
	devices     Devices
	programs    Programs
	refuseLinks bool
	using       keylock.Map // by path
	claims      keylock.Map // by device number
}

// New returns the disks of a node. It does nothing yet.
func New(config Config) *Disks {
	d := &Disks{mounter: config.Mounter, devices: config.Devices, programs: config.Programs, refuseLinks: config.RefuseLinks}
	if d.devices == nil {
		d.devices = kernelDevices{}
	}
	if d.programs == nil {
		d.programs = SystemPrograms()
	}
	return d
}

// Use opens the device at a path, runs work and closes the device. Another Use of the path
// waits. The context of work ends with ctx. When ctx ends, Use returns without work; the
// device stays open, and claimed, until work and all calls of the [Device] have ended. The
// error wraps mount.ErrUncertain if they may have changed something. So work must not
// write to variables that the caller reads after an error, and its calls of the Device need its context: with
// another one they may begin after Use has returned.
func (d *Disks) Use(ctx context.Context, device string, work func(ctx context.Context, d *Device) error) error {
	if work == nil {
		return operation.Refuse("work", "", "must not be nil")
	}
	return d.use(ctx, "", device, work)
}

// use implements Use. op is the operation that errors name; empty: the error of work is returned
// unchanged.
func (d *Disks) use(ctx context.Context, op, device string, work func(context.Context, *Device) error) error {
	if err := d.check(device); err != nil {
		return err
	}
	var changed atomic.Bool
	ended, began, err := keylock.Await(ctx, d.using.Key(device), ctxend.Controller, func() (ended bool, err error) {
		return true, d.open(ctx, op, device, &changed, work)
	}, nil)
	switch {
	case !began:
		err = ctxend.Error(ctx)
	case !ended && changed.Load():
		err = uncertain(err)
	}
	if op == "" && ended {
		return err // of work, or of the open
	}
	return failed(cmp.Or(op, "use"), device, err)
}

// open opens the device, runs work unless ctx has ended, and closes the device. It sets changed before the
// first call of the device that may change something, and never resets it: work may go on for long after
// that call, with a context that has ended.
func (d *Disks) open(ctx context.Context, op, device string, changed *atomic.Bool, work func(context.Context, *Device) error) error {
	at, err := d.resolve(device)
	if err != nil {
		return failed("open", device, err)
	}
	handle, err := d.devices.Open(at)
	if err != nil {
		return failed("open", device, err)
	}
	dev := &Device{disks: d, handle: handle, op: op, changed: changed}
	defer dev.close()
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	return work(ctx, dev)
}

func (d *Disks) resolve(device string) (string, error) {
	if d.refuseLinks {
		return device, nil
	}
	if _, kernel := d.devices.(kernelDevices); !kernel {
		return device, nil
	}
	return filepath.EvalSymlinks(device)
}

// check fails with an *InputError if d is nil or the zero value, or the path of a device is not absolute.
func (d *Disks) check(device string) error {
	if d == nil || d.devices == nil {
		return operation.Refuse("Disks", "", "must be made by New")
	}
	return checkPath("Device", device)
}

// checkPath fails with an *InputError if p is not an absolute path.
func checkPath(field, p string) error {
	switch {
	case p == "":
		return operation.Refuse(field, "", "must not be empty")
	case strings.ContainsRune(p, 0):
		return operation.Refuse(field, p, "must not contain NUL")
	case !path.IsAbs(p):
		return operation.Refuse(field, p, "must be absolute")
	}
	return nil
}

// Identify returns which device is at a path, without its size. It does not open the
// device.
func (d *Disks) Identify(ctx context.Context, device string) (Info, error) {
	if err := d.check(device); err != nil {
		return Info{}, err
	}
	info, began, err := keylock.Await(ctx, d.using.Key("identify\x00"+device), ctxend.Kernel, func() (Info, error) {
		at, err := d.resolve(device)
		if err != nil {
			return Info{}, err
		}
		return d.devices.Identify(at)
	}, nil)
	if !began {
		err = ctxend.Error(ctx)
	}
	return info, failed("identify", device, err)
}

// Probe returns the content of a device, which may be in use. A device that is mounted
// changes while it is read.
func (d *Disks) Probe(ctx context.Context, device string) (Content, error) {
	result := make(chan Content, 1)
	err := d.use(ctx, "probe", device, func(ctx context.Context, dev *Device) error {
		c, err := dev.Probe(ctx)
		result <- c
		return err
	})
	if err != nil {
		return Content{}, err
	}
	return <-result, nil
}

// checkMounter fails with an *InputError if there is no mounter.
func (d *Disks) checkMounter() error {
	if d == nil || d.mounter == nil {
		return operation.Refuse("Config.Mounter", "", "must not be nil")
	}
	return nil
}
