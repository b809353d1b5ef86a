package hostdisk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openExclusively opens a block device with O_EXCL, without waiting for a medium.
func openExclusively(name string) DeviceUse {
	info, err := os.Stat(name)
	if err != nil || info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0 {
		return DeviceUseUnknown
	}
	f, err := os.OpenFile(name, os.O_RDONLY|os.O_EXCL|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, syscall.EBUSY):
		return DeviceInUse
	case err != nil:
		return DeviceUseUnknown
	}
	_ = f.Close() // only read
	return DeviceFree
}
