package local

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/input"
)

// Causes of a [*DeviceError]. The device has not been written to.
var (
	// ErrDeviceGone: the volume's path is missing, or its link leads nowhere, or the
	// device has no medium: no size. The device may come back: the error is transient.
	ErrDeviceGone = errors.New("the device is gone")

	// ErrNotDevice: the file at the path cannot be used as a block device: it is of another
	// kind, or in a directory where pods may have created it.
	ErrNotDevice = errors.New("not a block device that may be a volume")

	// ErrLink: the path is, or leads to, a symbolic link in a directory that is none of
	// Config.DeviceLinks, so it is not followed. The error is final and wraps
	// ErrNotDevice, too.
	ErrLink = fmt.Errorf("a symbolic link outside the directories in Config.DeviceLinks: %w", ErrNotDevice)

	// ErrDeviceReadOnly: the device, or its mount, is read-only, and the volume is not.
	ErrDeviceReadOnly = errors.New("the device is read-only, and the volume is writable")

	// ErrDeviceInUse: the device is mounted elsewhere, is swap, or belongs to a RAID or a
	// volume group; or a pod has the raw device, its disk or one of its partitions. The
	// error is transient.
	ErrDeviceInUse = disk.ErrInUse

	// ErrDeviceSwapped: another device is in the place of the volume's device.
	// [Plugin.Forget] makes it acceptable.
	ErrDeviceSwapped = disk.ErrSwapped

	// ErrDeviceTooSmall: the device is smaller than the file system on it, or too small
	// for mkfs; then the device is blank again. The error is final.
	ErrDeviceTooSmall = disk.ErrTooSmall

	// ErrFileSystemDirty: the file system was not unmounted, and its journal cannot be
	// replayed because the device is read-only. The error is final. See [disk.ErrDirty].
	ErrFileSystemDirty = disk.ErrDirty

	// ErrNotFormatted: the device is blank, and read-only.
	ErrNotFormatted = disk.ErrNotFormatted

	// ErrFileSystemDamaged: fsck has found errors that it does not repair automatically. It
	// may have repaired others. The error is final.
	ErrFileSystemDamaged = disk.ErrDamaged

	// ErrDuplicateFileSystem: a file system with the same UUID is mounted, of which this one
	// is a copy. The device is unchanged. The error is final. See [disk.ErrDuplicate].
	ErrDuplicateFileSystem = disk.ErrDuplicate
)

// A DeviceError is an error of the device of a volume.
type DeviceError struct {
	Volume string // its name
	Path   string // of the device, as written in the volume
	Err    error
}

// Error names the volume and its device.
func (e *DeviceError) Error() string {
	return fmt.Sprintf("local volume %s, device %s: %v", input.Quote(e.Volume), input.Quote(e.Path), e.Err)
}

// Unwrap returns the cause.
func (e *DeviceError) Unwrap() error { return e.Err }

// A ContentError is the error of a device with other content than the volume's file system.
// The device is unchanged.
type ContentError = disk.ContentError
