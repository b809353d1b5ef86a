package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"golang.org/x/sys/unix"
)

// attachCalls locks paths during AttachFileDevice. It is locked before statusCalls.
var attachCalls keylock.Map

// lookups locks paths while their identity is read.
var lookups keylock.Map

// GetLoopDevice returns the loop device of the file or block device at path, the first one
// if there are several. It follows symbolic links. If there is none the error wraps
// [ErrNotAttached].
func GetLoopDevice(ctx context.Context, path string) (Device, error) {
	found, err := devicesOf(ctx, path)
	if err == nil && len(found) == 0 {
		err = ErrNotAttached
	}
	if err != nil {
		return Device{}, fmt.Errorf("loop device of %s: %w", input.Quote(path), err)
	}
	return found[0], nil
}

// DetachFileDevice detaches all loop devices of the file or block device at path, also of a
// removed file. It returns nil if there are none. See [Detach].
func DetachFileDevice(ctx context.Context, path string) error {
	found, err := devicesOf(ctx, path)
	for _, d := range found {
		err = errors.Join(err, Detach(ctx, d))
	}
	if err != nil {
		return fmt.Errorf("detach the loop device of %s: %w", input.Quote(path), err)
	}
	return nil
}

// AttachFileDevice returns the loop device of the file or block device at path that has the
// Name and ReadOnly of the Config, and attaches one if there is none. It is idempotent, and
// safe for concurrent use, also by several processes. If ctx ends first, no new device is
// left.
func AttachFileDevice(ctx context.Context, path string, c Config) (Device, error) {
	d, err := attachPath(ctx, path, c)
	if err != nil {
		return Device{}, fmt.Errorf("loop device of %s: %w", input.Quote(path), err)
	}
	return d, nil
}

func attachPath(ctx context.Context, path string, c Config) (Device, error) {
	if c.File != nil {
		return Device{}, errors.New("Config.File must be empty where a path is given")
	}
	if err := checkName(c.Name); err != nil {
		return Device{}, err
	}
	unlock, err := attachCalls.Lock(ctx, filepath.Clean(path))
	if err != nil {
		return Device{}, ctxend.Error(ctx)
	}
	// The lock is held until a late device is detached, so that no later call returns
	// that device.
	made, err := ctxend.Await(ctx, ctxend.Plugin, func() (*attached, error) { return attachOnce(ctx, path, c), nil },
		func(a *attached, _ error) {
			if a != nil && a.isNew {
				_ = detach(a.device)
			}
			unlock()
		})
	if made == nil {
		return Device{}, err
	}
	unlock()
	return made.device, made.err
}

// attached is the result of attaching.
type attached struct {
	device Device
	isNew  bool
	err    error
}

func attachOnce(ctx context.Context, path string, c Config) *attached {
	flags := os.O_RDWR
	if c.ReadOnly {
		flags = os.O_RDONLY
	}
	f, err := openBacking(path, flags)
	if err != nil {
		return &attached{err: err}
	}
	defer func() { _ = f.Close() }()
	unlock, err := lockFile(ctx, path, flags)
	if err != nil {
		return &attached{err: err}
	}
	defer unlock()
	found, err := devicesOf(ctx, path)
	for _, d := range found {
		if d.Name == c.Name && d.ReadOnly == c.ReadOnly {
			return &attached{device: d}
		}
	}
	if err != nil {
		return &attached{err: err}
	}
	c.File = f
	d, err := attach(c)
	return &attached{device: d, isNew: err == nil, err: err}
}

// openBacking opens the file without blocking: opening a pipe would wait for its writer.
func openBacking(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, withoutPath(err)
	}
	info, err := f.Stat()
	if err == nil && !isBacking(info.Mode()) {
		err = errNotBacking
	}
	if err != nil {
		_ = f.Close()
		return nil, withoutPath(err)
	}
	return f, nil
}

// withoutPath removes the path from an error; callers add a shortened one.
func withoutPath(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", failed.Op, failed.Err)
	}
	return err
}

var errNotBacking = errors.New("neither a regular file nor a block device")

func isBacking(mode fs.FileMode) bool {
	return mode.IsRegular() || mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
}

// lockFile prevents other processes from attaching the file meanwhile. The lock is on a
// descriptor of its own, since the loop device keeps the one that it is attached to. On a
// file system without locks lockFile locks nothing.
func lockFile(ctx context.Context, path string, flags int) (unlock func(), err error) {
	f, err := openBacking(path, flags)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return func() { _ = f.Close() }, nil
		}
		if err := ctxend.Sleep(ctx, 10*time.Millisecond); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
}

// A backing is the file or block device at a path.
type backing struct {
	path   string // without symbolic links
	exists bool
	file   fileID
	device uint64 // of a block device
}

// devicesOf returns the loop devices of the file or block device at a path.
func devicesOf(ctx context.Context, path string) ([]Device, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	b, _, err := keylock.Await(ctx, lookups.Key(filepath.Clean(path)), ctxend.Kernel, func() (backing, error) { return backingAt(path) }, nil)
	if err != nil {
		return nil, err
	}
	all, err := List(ctx)
	if err != nil {
		return nil, err
	}
	var found []Device
	for _, d := range all {
		if !d.Ending && b.isOf(d) {
			found = append(found, d)
		}
	}
	return found, nil
}

func backingAt(path string) (backing, error) {
	if len(path) >= unix.PathMax {
		return backing{}, unix.ENAMETOOLONG
	}
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		absolute, err := filepath.Abs(path)
		return backing{path: absolute}, err
	}
	if err != nil {
		return backing{}, withoutPath(err)
	}
	b := backing{exists: true}
	if b.path, err = filepath.Abs(resolved); err != nil {
		return backing{}, err
	}
	var stat unix.Stat_t
	if err := unix.Stat(b.path, &stat); err != nil {
		return backing{}, fmt.Errorf("stat: %w", err)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		b.file = fileID{stat.Dev, stat.Ino}
	case unix.S_IFBLK:
		b.device = stat.Rdev
	default:
		return backing{}, errNotBacking
	}
	return b, nil
}

// isOf reports whether the device is attached to b. For a removed file, and for a device
// whose status is not readable, it compares paths.
func (b backing) isOf(d Device) bool {
	switch {
	case d.file == (fileID{}):
		return b.path == d.Backing && b.exists != d.Deleted
	case !b.exists:
		return b.path == d.Backing && d.Deleted
	case b.device != 0:
		return b.device == d.BackingDevice
	}
	return d.BackingDevice == 0 && b.file == d.file
}
