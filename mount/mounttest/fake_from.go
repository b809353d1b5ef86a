package mounttest

import (
	"slices"

	"github.com/volumekit/volumekit/mount"
)

// mountsFrom returns the mounts of a block device by its number, other ones by
// what they were mounted from.
func (k *kernel) mountsFrom(source string) []mount.Info {
	minor, isDevice := k.devices[k.deviceName(source)]
	return slices.DeleteFunc(k.table(), func(info mount.Info) bool {
		if isDevice {
			return info.Major != deviceMajor || info.Minor != minor
		}
		return info.Source != source
	})
}
