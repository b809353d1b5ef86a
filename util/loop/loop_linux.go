package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Attach makes a new loop device.
func Attach(c Config) (Device, error) {
	if err := c.check(); err != nil {
		return Device{}, err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return Device{}, err
	}
	defer func() { _ = control.Close() }()
	const tries = 1000 // somebody else may be faster
	for range tries {
		var n int
		if n, err = unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE); err != nil {
			return Device{}, fmt.Errorf("find a free loop device: %w", err)
		}
		d := Device{Path: fmt.Sprintf("/dev/loop%d", n)}
		if err = d.configure(c); err == nil {
			return d.asMade()
		}
		if !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return Device{}, err
}

// asMade returns what was made, or takes it back: nobody else would.
func (d Device) asMade() (Device, error) {
	made, err := Status(d.Path)
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
	// Read-only is the device's flag, not its descriptor's.
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
		return fmt.Errorf("attach %s to %s: %w", c.File.Name(), d.Path, err)
	}
	return nil
}

// Status asks the kernel about a loop device. One that is not attached is an error
// that wraps unix.ENXIO; one that is missing, fs.ErrNotExist.
func Status(device string) (Device, error) {
	f, err := os.Open(device)
	if err != nil {
		return Device{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil {
		return Device{}, &fs.PathError{Op: "status", Path: device, Err: err}
	}
	name, _, _ := bytes.Cut(info.File_name[:], []byte{0})
	backing, err := os.ReadFile(backingFile(path.Base(device)))
	if err != nil {
		return Device{}, err
	}
	return Device{
		Path: device, Backing: strings.TrimSuffix(string(backing), "\n"), Name: string(name),
		ReadOnly: info.Flags&unix.LO_FLAGS_READ_ONLY != 0, BackingDevice: fromKernel(info.Rdevice),
		Ending: info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0,
	}, nil
}

// fromKernel turns a device number as the kernel tells it here, new_encode_dev, into
// one of stat(2).
func fromKernel(dev uint64) uint64 {
	major, minor := uint32(dev>>8)&0xfff, uint32(dev&0xff|dev>>12&0xfff00)
	return unix.Mkdev(major, minor)
}

func backingFile(name string) string { return "/sys/block/" + name + "/loop/backing_file" }

// List returns the loop devices that are attached, with Path and Backing alone: it
// opens none of them, so nobody is kept from detaching theirs.
func List() ([]Device, error) {
	entries, err := os.ReadDir("/sys/block")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Device
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "loop") {
			continue
		}
		backing, err := os.ReadFile(backingFile(entry.Name()))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
			continue // not attached, or detached meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Device{Path: "/dev/" + entry.Name(), Backing: strings.TrimSuffix(string(backing), "\n")})
	}
	return all, nil
}

// Named returns the loop devices of that name whose backing is a block device, or
// was one that has been removed meanwhile. Those that are ending are left
// out: they cannot be kept.
func Named(name string) ([]Device, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	all, err := List()
	if err != nil {
		return nil, err
	}
	var found []Device
	for _, d := range all {
		backing := d.Backing
		d, err := Status(d.Path)
		switch {
		case errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist):
			continue // detached meanwhile
		case errors.Is(err, fs.ErrPermission) && !strings.HasPrefix(backing, "/dev/"):
			continue // most likely a file, and who may not open it has not made it
		case err != nil:
			return nil, err
		case d.BackingDevice != 0 && d.Name == name && !d.Ending:
			found = append(found, d)
		}
	}
	return found, nil
}

// Detach takes back what Attach made, if it still has that name: else it does
// nothing. A device that is in use is detached when its last user is gone. One that
// is not attached is no error.
func Detach(d Device) error {
	f, err := os.Open(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	is, err := Status(d.Path)
	switch {
	case errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case is.Name != d.Name:
		return nil
	}
	return clearFile(f)
}

func clearFile(device *os.File) error {
	_, err := unix.IoctlRetInt(int(device.Fd()), unix.LOOP_CLR_FD)
	if err != nil && !errors.Is(err, unix.ENXIO) {
		return &fs.PathError{Op: "detach", Path: device.Name(), Err: err}
	}
	return nil
}

// Resize gives the device the size that what is behind it has by now.
func Resize(d Device) error {
	f, err := os.Open(d.Path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return &fs.PathError{Op: "resize", Path: d.Path, Err: err}
	}
	return nil
}
