//go:build !linux

package hostdisk

// openExclusively opens a block device with O_EXCL, without waiting for a medium.
func openExclusively(string) DeviceUse { return DeviceUseUnknown }
