package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"golang.org/x/sys/unix"
)

// Attach attaches a file to a new loop device. If ctx ends first, no device is left.
func Attach(ctx context.Context, c Config) (_ Device, err error) {
	defer brief.Shorten(&err)
	if err := c.check(); err != nil {
		return Device{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return Device{}, err
	}
	file, err := duplicate(c.File)
	if err != nil {
		return Device{}, err
	}
	c.File = file
	work := func() (Device, error) {
		defer func() { _ = file.Close() }()
		return attach(c)
	}
	return ctxend.Await(ctx, ctxend.Kernel, work, func(d Device, err error) {
		if err == nil {
			_ = detach(d)
		}
	})
}

// duplicate returns a file with a descriptor of its own, for work that may continue after
// the caller has closed the given file.
func duplicate(file *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "dup", Path: file.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

func attach(c Config) (Device, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return Device{}, namePrivilege(err)
	}
	defer func() { _ = control.Close() }()
	const tries = 1000 // another process may attach the free device first
	for range tries {
		var n int
		if n, err = unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE); err != nil {
			return Device{}, namePrivilege(fmt.Errorf("find a free loop device: %w", err))
		}
		d := Device{Path: fmt.Sprintf("/dev/loop%d", n)}
		if err = d.configure(c); err == nil {
			return d.statusOrDetach()
		}
		if !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return Device{}, namePrivilege(err)
}

// namePrivilege names the missing privilege, which the kernel's error does not.
func namePrivilege(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("requires root with CAP_SYS_ADMIN in the initial user namespace: %w", err)
	}
	return err
}

// statusOrDetach returns the status of an attached device. If that fails it detaches the device, as
// its caller could not.
func (d Device) statusOrDetach() (Device, error) {
	made, err := status(d.Path)
	if err == nil {
		return made, nil
	}
	f, openErr := os.Open(d.Path)
	if openErr != nil {
		return Device{}, errors.Join(err, openErr)
	}
	defer func() { _ = f.Close() }()
	return Device{}, errors.Join(err, clearFile(f))
}

func (d Device) configure(c Config) error {
	// Read-only is a flag of the device, not of its descriptor.
	device, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	config := unix.LoopConfig{Fd: uint32(c.File.Fd())}
	copy(config.Info.File_name[:], c.Name)
	if c.ReadOnly {
		config.Info.Flags = unix.LO_FLAGS_READ_ONLY
	}
	if err := unix.IoctlLoopConfigure(int(device.Fd()), &config); err != nil {
		err = nameRelease(err, func() bool { return hasConfigure(device) })
		return fmt.Errorf("attach %s to %s: %w", input.Quote(c.File.Name()), d.Path, err)
	}
	return nil
}

// nameRelease names the release that the call requires, if the kernel lacks the call.
func nameRelease(err error, hasConfigure func() bool) error {
	if !errors.Is(err, unix.EINVAL) || hasConfigure() {
		return err
	}
	return fmt.Errorf("LOOP_CONFIGURE: requires Linux 5.8: %w: %w", errors.ErrUnsupported, err)
}

// hasConfigure reports whether the kernel has LOOP_CONFIGURE. The call refuses a descriptor that
// is not open with EBADF, and changes nothing; a kernel without the call returns EINVAL.
func hasConfigure(device *os.File) bool {
	err := unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{Fd: math.MaxUint32})
	return errors.Is(err, unix.EBADF)
}

// statusCalls locks devices during a status call: the kernel queries the file system of the
// backing file, which may not answer.
var statusCalls keylock.Map

// Status returns a loop device. For a device that is not attached the error wraps
// unix.ENXIO; for a missing one, fs.ErrNotExist.
func Status(ctx context.Context, device string) (_ Device, err error) {
	defer brief.Shorten(&err)
	if err := context.Cause(ctx); err != nil {
		return Device{}, err
	}
	d, _, err := keylock.Await(ctx, statusCalls.Key(device), ctxend.Kernel, func() (Device, error) { return status(device) }, nil)
	return d, err
}

func status(device string) (Device, error) {
	f, err := os.Open(device)
	if err != nil {
		return Device{}, namePrivilege(err)
	}
	defer func() { _ = f.Close() }()
	return statusOf(f)
}

// statusOf returns an open device, which cannot be detached meanwhile.
func statusOf(f *os.File) (Device, error) {
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil {
		return Device{}, &fs.PathError{Op: "status", Path: f.Name(), Err: err}
	}
	d, err := readSysfs(f.Name())
	if err != nil {
		return Device{}, err
	}
	name, _, _ := bytes.Cut(info.File_name[:], []byte{0})
	d.Name, d.ReadOnly = string(name), info.Flags&unix.LO_FLAGS_READ_ONLY != 0
	d.BackingDevice, d.Ending = deviceNumber(info.Rdevice), info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0
	d.file = fileID{deviceNumber(info.Device), info.Inode}
	if d.Deleted && identityOf(d.Backing+deleted) == d.file { // a file whose name ends in " (deleted)"
		d.Deleted, d.Backing = false, d.Backing+deleted
	}
	return d, nil
}

// identityOf returns the identity of the file at a path, or zero if there is no file.
func identityOf(path string) fileID {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return fileID{}
	}
	return fileID{stat.Dev, stat.Ino}
}

// deviceNumber converts a device number of the loop ioctls (new_encode_dev) to one of
// stat(2).
func deviceNumber(dev uint64) uint64 {
	major, minor := uint32(dev>>8)&0xfff, uint32(dev&0xff|dev>>12&0xfff00)
	return unix.Mkdev(major, minor)
}

// deleted is the suffix that the kernel adds to the path of a removed file.
const deleted = " (deleted)"

// readSysfs returns a device as sysfs describes it. It waits for no file system.
func readSysfs(device string) (Device, error) {
	d := Device{Path: device}
	dir := "/sys/block/" + path.Base(device)
	backing, err := os.ReadFile(dir + "/loop/backing_file")
	if err != nil {
		return Device{}, err
	}
	d.Backing, d.Deleted = strings.CutSuffix(strings.TrimSuffix(string(backing), "\n"), deleted)
	if seq, err := os.ReadFile(dir + "/diskseq"); err == nil {
		d.Seq, _ = strconv.ParseUint(strings.TrimSpace(string(seq)), 10, 64)
	}
	if ro, err := os.ReadFile(dir + "/ro"); err == nil {
		d.ReadOnly = strings.TrimSpace(string(ro)) == "1"
	}
	return d, nil
}

// Detach detaches a device that Attach, List or another call has returned. After nil the
// device is not attached; a device in use is detached when its last user closes it, and is
// Ending until then. A device that is not attached is no error. If another device has its
// path by now, shown by a different Name or Seq, Detach leaves that device and returns an
// error that wraps [ErrReplaced].
func Detach(ctx context.Context, d Device) error {
	return change(ctx, d, detach)
}

func detach(d Device) error {
	f, err := os.Open(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return namePrivilege(err)
	}
	defer func() { _ = f.Close() }()
	switch err := d.verify(f); {
	case errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return namePrivilege(clearFile(f))
}

// verify returns an error if the open device is not d.
func (d Device) verify(f *os.File) error {
	is, err := statusOf(f)
	if err == nil && (is.Name != d.Name || d.Seq != 0 && is.Seq != d.Seq) {
		err = fmt.Errorf("%s: %w", input.Quote(d.Path), ErrReplaced)
	}
	return err
}

func clearFile(device *os.File) error {
	_, err := unix.IoctlRetInt(int(device.Fd()), unix.LOOP_CLR_FD)
	if err != nil && !errors.Is(err, unix.ENXIO) {
		return &fs.PathError{Op: "detach", Path: device.Name(), Err: err}
	}
	return nil
}

// Resize sets the device's size to the current size of its backing file.
func Resize(ctx context.Context, d Device) error {
	return change(ctx, d, resize)
}

func resize(d Device) error {
	f, err := os.Open(d.Path)
	if err != nil {
		return namePrivilege(err)
	}
	defer func() { _ = f.Close() }()
	if d.Name != "" || d.Seq != 0 {
		if err := d.verify(f); err != nil {
			return err
		}
	}
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return namePrivilege(&fs.PathError{Op: "resize", Path: d.Path, Err: err})
	}
	return nil
}

// change runs work on a device until ctx ends.
func change(ctx context.Context, d Device, work func(Device) error) (err error) {
	defer brief.Shorten(&err)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	_, _, err = keylock.Await(ctx, statusCalls.Key(d.Path), ctxend.Kernel, func() (struct{}, error) { return struct{}{}, work(d) }, nil)
	return err
}
