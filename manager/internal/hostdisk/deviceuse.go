package hostdisk

import (
	"context"
	"path/filepath"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// A DeviceUse is whether the kernel or a process holds a block device exclusively.
type DeviceUse int

const (
	DeviceUseUnknown DeviceUse = iota // not a block device of this node, or it cannot be opened
	DeviceFree
	DeviceInUse
)

// devicesBeingOpened are the devices with an open in flight.
var devicesBeingOpened keylock.Map

// DeviceUse opens the device with O_EXCL, which fails while a file system on the device is
// mounted in any mount namespace, or is detached and in use. A plugin may return another name of an attached
// volume than the path of a device: the use of a name that is not an absolute path is not known.
func (d Disk) DeviceUse(ctx context.Context, devicePath string) (DeviceUse, error) {
	if !filepath.IsAbs(devicePath) {
		return DeviceUseUnknown, nil
	}
	use, _, err := keylock.Await(ctx, devicesBeingOpened.Key(devicePath), ctxend.Plugin, func() (DeviceUse, error) {
		return openExclusively(devicePath), nil
	}, nil)
	return use, err
}
