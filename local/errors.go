package local

import (
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/util/diskprobe"
)

// What is wrong with a volume's device: wrapped by a [*DeviceError]. Nothing has
// been written to the device then.
var (
	// ErrDeviceGone: there is nothing at the volume's path, or the link there leads
	// nowhere, or the device there has no medium: no size. The device may come back: the
	// error is transient.
	ErrDeviceGone = errors.New("the device is gone")

	// ErrNotDevice: what is at the path cannot be used as a block device: it is
	// something else, or somewhere where pods may have made it.
	ErrNotDevice = errors.New("not a block device that may be a volume")

	// ErrLink: the path is, or leads to, a symbolic link in a directory that is none of
	// Config.DeviceLinks, so it is not followed. The error is final and wraps
	// ErrNotDevice, too.
	ErrLink = fmt.Errorf("a symbolic link in a directory that is none of Config.DeviceLinks: %w", ErrNotDevice)

	// ErrDeviceReadOnly: the device, or its mount, is read-only, and the volume is not.
	ErrDeviceReadOnly = errors.New("the device is read-only, the volume is not")

	// ErrDeviceInUse: something else has the device: it is mounted elsewhere, part of
	// a RAID or a volume group, or used as swap; or a pod has it raw, or the disk that it
	// is a partition of, or a partition of it. The error is transient.
	ErrDeviceInUse = errors.New("the device is in use")

	// ErrDeviceSwapped: it is not the device that the volume was on before. If that is
	// meant to be so, [Plugin.Forget] makes it acceptable.
	ErrDeviceSwapped = errors.New("another device than the volume was on before")

	// ErrNotFormatted: the device is blank, and may not be written to.
	ErrNotFormatted = errors.New("the device is not formatted, and is only to be read from")
)

// ErrFileSystemDamaged: fsck has found errors that it does not repair by itself: somebody
// has to look at them. It may have repaired others. It is wrapped by a [*DeviceError].
var ErrFileSystemDamaged = errors.New("the file system has errors that fsck -a does not repair")

// ErrDuplicateFileSystem: a file system of the same UUID is mounted, of which this one
// is a copy, and xfs mounts no two of them but with the mount option nouuid. It is
// wrapped by a [*DeviceError]; the device is unchanged.
var ErrDuplicateFileSystem = errors.New("a copy of a file system that is mounted: xfs needs the option nouuid")

// A DeviceError is what is wrong with the device of a volume.
type DeviceError struct {
	Volume string // its name
	Path   string // of the device, as the volume has it
	Err    error
}

// Error names the volume and its device.
func (e *DeviceError) Error() string {
	return fmt.Sprintf("local volume %.80q, device %.200q: %v", e.Volume, e.Path, e.Err)
}

// Unwrap returns what is wrong.
func (e *DeviceError) Unwrap() error { return e.Err }

// A ContentError is a device that carries something else than the file system that
// the volume is to have. It is never formatted: whoever knows that nobody needs its
// content wipes it (wipefs(8), blkdiscard(8)).
type ContentError struct {
	Found []diskprobe.Found // all that was found, not empty
	Want  string            // the type of file system; empty if any would do
}

// Error says what was found.
func (e *ContentError) Error() string {
	var found []string
	for _, f := range e.Found {
		found = append(found, f.String())
	}
	want := e.Want
	if want == "" {
		want = "a file system"
	}
	return fmt.Sprintf("it carries %s, where %s was expected; it is left as it is", strings.Join(found, ", "), want)
}
