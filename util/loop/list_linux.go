package loop

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// patience limits the time for which List waits for the file system of a backing file.
const patience = time.Second

// List returns the attached loop devices. Name, BackingDevice and Ending are missing for a
// device that the process may not open, and for one whose backing file's server does not
// answer within a second.
func List(ctx context.Context) ([]Device, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/sys/block")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "loop") {
			paths = append(paths, "/dev/"+entry.Name())
		}
	}
	return readDevices(ctx, paths)
}

// readDevices returns the attached devices among the paths.
func readDevices(ctx context.Context, paths []string) ([]Device, error) {
	found, errs := make([]Device, len(paths)), make([]error, len(paths))
	var all sync.WaitGroup
	for i, p := range paths {
		if _, err := readSysfs(p); isGone(err) {
			errs[i] = err
			continue
		}
		all.Go(func() { found[i], errs[i] = readDevice(ctx, p) })
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var attached []Device
	for i, err := range errs {
		switch {
		case isGone(err):
			continue
		case err != nil:
			return nil, err
		}
		attached = append(attached, found[i])
	}
	return attached, nil
}

// readDevice returns a device by its ioctl, or else by sysfs.
func readDevice(ctx context.Context, path string) (Device, error) {
	hurry, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := Status(hurry, path)
	if err == nil || isShortage(err) {
		return d, err
	}
	return readSysfs(path)
}

// isGone reports whether an error of sysfs means that the device is not attached.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV)
}

// isShortage reports whether an error says nothing about the device.
func isShortage(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// Named returns the loop devices with a name, on files and on block devices. It omits
// devices that are Ending, since they cannot be kept, and devices whose Name is missing in
// [List].
func Named(ctx context.Context, name string) ([]Device, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	all, err := List(ctx)
	if err != nil {
		return nil, err
	}
	var found []Device
	for _, d := range all {
		if d.Name == name && !d.Ending {
			found = append(found, d)
		}
	}
	return found, nil
}
