package disk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/progress"
)

// A GrowRequest is a file system to grow to the size of its device.
type GrowRequest struct {
	// Device is the path of the device. Empty: the source of the mount at Target.
	Device string
	// Target is where the file system is mounted. Empty: the device is not in use, and the
	// file system is grown without being mounted, which ext2, ext3 and ext4 can do.
	Target string
}

// Sizes are in bytes.
type Sizes struct {
	Device int64
	// FileSystem is the size in the superblock, 0 if there is none.
	FileSystem int64
}

// Grow grows a file system to the size of its device, and returns both sizes afterwards.
// A file system of that size is no error. A mount that is read-only, or a device that is,
// is ErrReadOnly; a mount of ext2, or xfs and btrfs without a mount, errors.ErrUnsupported;
// a Target where nothing is mounted, mount.ErrNotMounted, and where another device is
// mounted, ErrSwapped.
//
// If ctx ends during the work, the error wraps mount.ErrUncertain: the file system is
// sound, and has one size or the other. The same call continues.
func (d *Disks) Grow(ctx context.Context, r GrowRequest) (Sizes, error) {
	result := make(chan Sizes, 1)
	readOnly := func() error { return ErrReadOnly }
	err := d.useForGrow(ctx, "grow", r, readOnly, func(ctx context.Context, dev *Device, fsType string) error {
		if err := dev.Grow(ctx, fsType, r.Target); err != nil {
			return err
		}
		sizes, err := dev.Sizes(ctx, fsType, r.Target)
		result <- sizes
		return err
	})
	if err != nil {
		return Sizes{}, err
	}
	return <-result, nil
}

// NeedsGrow reports whether the device has room for more than one block beyond the end of
// the file system. It is false if the device or the mount is read-only. It changes nothing.
func (d *Disks) NeedsGrow(ctx context.Context, r GrowRequest) (bool, error) {
	result := make(chan bool, 1)
	readOnly := func() error { result <- false; return nil }
	err := d.useForGrow(ctx, "size", r, readOnly, func(ctx context.Context, dev *Device, fsType string) error {
		needed, err := dev.NeedsGrow(ctx, fsType, r.Target)
		result <- needed
		return err
	})
	if err != nil {
		return false, err
	}
	return <-result, nil
}

// useForGrow runs work with the device and its file system type, once the device has passed the
// checks: without a Target it is not in use, with one it is mounted there. OnReadOnly runs instead if
// the device or the mount is read-only.
func (d *Disks) useForGrow(ctx context.Context, op string, r GrowRequest, onReadOnly func() error, work func(context.Context, *Device, string) error) error {
	if r.Target == "" {
		return d.use(ctx, op, r.Device, func(ctx context.Context, dev *Device) error {
			if dev.Info().ReadOnly {
				return onReadOnly()
			}
			fsType, err := dev.unmountedType(ctx)
			if err != nil {
				return err
			}
			return work(ctx, dev, fsType)
		})
	}
	if err := checkPath("Target", r.Target); err != nil {
		return err
	}
	if err := d.checkMounter(); err != nil {
		return err
	}
	at, mounted, err := d.mountAt(ctx, r.Target)
	if err == nil && !mounted {
		err = mount.ErrNotMounted
	}
	if err != nil {
		return failed(op, r.Target, err)
	}
	if r.Device == "" {
		r.Device = at.Source
	}
	return d.use(ctx, op, r.Device, func(ctx context.Context, dev *Device) error {
		if err := dev.checkMount(at); err != nil {
			return err
		}
		if dev.Info().ReadOnly || at.Flags&mount.ReadOnly != 0 || slices.Contains(at.SuperOptions, "ro") {
			return onReadOnly()
		}
		return work(ctx, dev, at.FSType)
	})
}

// unmountedType returns the file system of a device that is not in use.
func (d *Device) unmountedType(ctx context.Context) (string, error) {
	if err := d.checkUnused(ctx); err != nil {
		return "", err
	}
	c, err := d.Probe(ctx)
	if err != nil {
		return "", err
	}
	return fileSystemOf(c)
}

// Grow grows the file system of the device. The target is where it is mounted, or "".
func (d *Device) Grow(ctx context.Context, fsType, target string) error {
	if err := checkType(fsType); err != nil {
		return err
	}
	mounted := target != ""
	if fsType == "ext2" && mounted || !isExt(fsType) && !mounted {
		state := "not mounted"
		if mounted {
			state = "mounted"
		}
		return d.failed("grow", fmt.Errorf("%s that is %s: %w", fsType, state, errors.ErrUnsupported))
	}
	if d.Info().ReadOnly {
		return d.failed("grow", ErrReadOnly)
	}
	return d.change(ctx, progress.Grow, func() error {
		err := d.runGrow(ctx, fsType, target)
		if err != nil && ctx.Err() != nil {
			err = uncertain(fmt.Errorf("%w: %w", context.Cause(ctx), err))
		}
		return err
	})
}

func (d *Device) runGrow(ctx context.Context, fsType, target string) error {
	switch {
	case fsType == "xfs":
		return d.run(ctx, "xfs_growfs", "-d", target)
	case fsType == "btrfs":
		return d.run(ctx, "btrfs", "filesystem", "resize", "max", target)
	case target == "": // resize2fs requires a complete check
		err := d.run(ctx, "fsck."+fsType, "-f", "-a", inherited)
		var failure *ToolError
		if errors.As(err, &failure) && failure.ExitCode > 0 && failure.ExitCode&fsckUnrepaired != 0 {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err != nil && (failure == nil || failure.ExitCode <= 0 || failure.ExitCode&^fsckRepaired != 0) {
			return err
		}
	}
	err := d.run(ctx, "resize2fs", inherited)
	if target != "" {
		err = nameCapability(err, mayGrowMounted())
	}
	return err
}

// nameCapability names the capability that a failed growth of a mounted file system lacked, which resize2fs
// does not.
func nameCapability(err error, has bool) error {
	var failure *ToolError
	if !errors.As(err, &failure) || failure.ExitCode <= 0 || has {
		return err
	}
	return fmt.Errorf("requires CAP_SYS_RESOURCE in the initial user namespace: %w", err)
}

// NeedsGrow is [Disks.NeedsGrow] for an open device. The target is where the file system is
// mounted, not read-only, or "".
func (d *Device) NeedsGrow(ctx context.Context, fsType, target string) (bool, error) {
	if d.Info().ReadOnly {
		return false, nil
	}
	sizes, err := d.Sizes(ctx, fsType, target)
	if err != nil {
		return false, err
	}
	const largestBlock = 64 << 10
	return sizes.FileSystem > 0 && sizes.Device-sizes.FileSystem > largestBlock, nil
}

// Sizes returns the sizes of the device and of its file system. The target is where the
// file system is mounted, or "".
func (d *Device) Sizes(ctx context.Context, fsType, target string) (Sizes, error) {
	return await(ctx, d, "size", func() (Sizes, error) {
		s := Sizes{Device: d.Info().Size}
		if d.Info().Number != 0 && target != "" && !isExt(fsType) {
			// The device has the superblock of the last commit.
			size, err := sizeOfMounted(fsType, target)
			s.FileSystem = size
			return s, err
		}
		c, err := probe(d.handle)
		if err != nil {
			return Sizes{}, err
		}
		if there, ok := c.FileSystem(); ok {
			s.FileSystem = there.Size
		}
		return s, nil
	})
}
