package mounttest

import (
	"context"
	"slices"

	"github.com/volumekit/volumekit/mount"
)

var _ mount.Identifier = (*Fake)(nil)

// MountID implements [mount.Identifier]. For faults and the log it is an [OpIsMountPoint].
func (f *Fake) MountID(ctx context.Context, p string) (id uint64, err error) {
	err = f.queryPath(ctx, OpIsMountPoint, p, func(p string) error {
		at, err := f.find(p)
		if err == nil && at.isMountPoint() {
			id = uint64(at.in.ID)
		}
		return err
	})
	return id, err
}

// mountsFrom returns the mounts of a block device by its number, and other mounts by their
// sources.
func (k *kernel) mountsFrom(source string) []mount.Info {
	minor, isDevice := k.devices[k.deviceName(source)]
	return slices.DeleteFunc(k.table(), func(info mount.Info) bool {
		if isDevice {
			return info.Major != deviceMajor || info.Minor != minor
		}
		return info.Source != source
	})
}
