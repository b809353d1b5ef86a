package building

import (
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/options"
	"golang.org/x/sys/unix"
)

// ChangeFlags changes the flags of the mount at fd.
func (b *Builder) ChangeFlags(fd int, o options.Options) error {
	tier, err := b.SelectTier()
	if err != nil {
		return err
	}
	if tier != TierClassic {
		change := o.Change()
		err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &change)
		if !b.mayFallBack(err) {
			return err
		}
	}
	before, err := mountinfo.StatusOf(fd)
	if err != nil {
		return err
	}
	return changeFlags(kernel.DescriptorPath(fd), options.FlagsOf(before.Attrs), o)
}

// AcceptsOption reports whether the kernel accepts an option without a value for a file system
// type. It configures a file system context, but creates no superblock.
func AcceptsOption(fsType, option string) bool {
	context, err := unix.Fsopen(fsType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return false
	}
	defer kernel.Close(context)
	return unix.FsconfigSetFlag(context, option) == nil
}
