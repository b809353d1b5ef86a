package hostdisk

import (
	"context"

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
// mounted in any mount namespace, or is detached and in use.
func (d Disk) DeviceUse(ctx context.Context, devicePath string) (DeviceUse, error) {
	use, _, err := keylock.Await(ctx, devicesBeingOpened.Key(devicePath), ctxend.Plugin, func() (DeviceUse, error) {
		return openExclusively(devicePath), nil
	}, nil)
	return use, err
}
