package mountutils

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/diskprobe"
	peer "k8s.io/mount-utils"
)

// SafeFormatAndMount has the methods of the type of that name of k8s.io/mount-utils, by
// package disk. It is safe for concurrent use. Make one with [NewSafeFormatAndMount].
//
// A device is formatted only if it is blank, and an interrupted format continues. Neither
// blkid nor the wrapper fsck is run, and nothing is logged. Errors are a [peer.MountError]
// and the errors of package disk, to errors.As and errors.Is.
type SafeFormatAndMount struct {
	peer.Interface
	disks *disk.Disks
	ctx   context.Context
	isNew bool
}

// NewSafeFormatAndMount returns a SafeFormatAndMount that mounts with mounter. Disks takes the place
// of the exec.Interface: disk.New(disk.Config{}), or those of a disktest.Machine in a test. Only with
// a mounter of [New] does a repeated call change nothing, and do errors of a mount have the causes of
// package disk. A format takes as long as mkfs; it ends with the context of [WithContext], if New
// returned the mounter.
func NewSafeFormatAndMount(mounter peer.Interface, disks *disk.Disks) *SafeFormatAndMount {
	return &SafeFormatAndMount{Interface: mounter, disks: disks, ctx: contextOf(mounter)}
}

// ForNewDevice returns a SafeFormatAndMount that formats over unknown bytes, but not over known
// content: for a device that has never carried data, such as one right after luksFormat. It is not
// for each later stage of the device: see disk.MountRequest.New.
func (s *SafeFormatAndMount) ForNewDevice() *SafeFormatAndMount {
	forNew := *s
	forNew.isNew = true
	return &forNew
}

func contextOf(mounter any) context.Context {
	if m, ok := mounter.(*Mounter); ok {
		return m.ctx
	}
	return context.Background()
}

// FormatAndMount formats a device if it is blank, checks its file system otherwise, and
// mounts it. A device whose file system is mounted already is mounted once more, at the same
// target without a change. A device with another user is refused with disk.ErrInUse; other
// content than the file system, with a *disk.ContentError.
func (s *SafeFormatAndMount) FormatAndMount(source, target, fsType string, options []string) error {
	return s.FormatAndMountSensitiveWithFormatOptions(source, target, fsType, options, nil, nil)
}

// FormatAndMountSensitive is FormatAndMount with options that stay out of errors and logs.
func (s *SafeFormatAndMount) FormatAndMountSensitive(source, target, fsType string, options, sensitiveOptions []string) error {
	return s.FormatAndMountSensitiveWithFormatOptions(source, target, fsType, options, sensitiveOptions, nil)
}

// FormatAndMountSensitiveWithFormatOptions is FormatAndMountSensitive with arguments for
// mkfs.
func (s *SafeFormatAndMount) FormatAndMountSensitiveWithFormatOptions(source, target, fsType string, options, sensitiveOptions, formatOptions []string) error {
	isReadOnly := func(option string) bool { return option == "ro" }
	p := disk.Preparation{
		FSType: fsType, Options: formatOptions, New: s.isNew,
		ReadOnly: slices.ContainsFunc(splitOptions(options), isReadOnly) || slices.ContainsFunc(splitOptions(sensitiveOptions), isReadOnly),
	}
	var mounting atomic.Bool
	err := s.disks.Use(s.ctx, source, func(ctx context.Context, d *disk.Device) error {
		fsType, err := d.Prepare(ctx, p)
		if err != nil {
			return err
		}
		if d.Info().ReadOnly && !p.ReadOnly {
			options = append(slices.Clone(options), "ro")
		}
		if err := d.CheckNode(ctx); err != nil {
			return err
		}
		mounting.Store(true)
		if err := s.MountSensitive(d.Info().Path, target, fsType, options, sensitiveOptions); err != nil {
			return d.Explain(ctx, fsType, s.table, err)
		}
		return nil
	})
	if err != nil && mounting.Load() && s.ctx.Err() != nil {
		err = mount.AsUncertain(err)
	}
	return withType(err)
}

// table returns the mounts, as far as the interface of mount-utils reports them.
func (s *SafeFormatAndMount) table(ctx context.Context) (mounts []mount.Info, err error) {
	if m, ok := s.Interface.(*Mounter); ok {
		return m.kernel().List(ctx)
	}
	points, err := s.List()
	for _, p := range points {
		mounts = append(mounts, mount.Info{Source: p.Device, Mountpoint: p.Path, FSType: p.Type})
	}
	return mounts, err
}

// GetDiskFormat returns the type of a device's content as blkid(8) names it, such as "ext4",
// "crypto_LUKS" or "LVM2_member", and
//   - "" for a blank device, and for the remains of an interrupted format, which FormatAndMount
//     replaces;
//   - "unknown data, probably partitions" for a partition table, also beside other content;
//   - "unknown data" for bytes without a signature;
//   - an error that wraps a *disk.ContentError for several types.
func (s *SafeFormatAndMount) GetDiskFormat(device string) (string, error) {
	c, err := s.disks.Probe(s.ctx, device)
	if err != nil {
		return "", withType(err)
	}
	isTable := func(f diskprobe.Found) bool { return f.Kind == diskprobe.Table }
	switch {
	case c.IsBlank(), c.Interrupted() != "":
		return "", nil
	case slices.ContainsFunc(c.Found, isTable):
		return "unknown data, probably partitions", nil
	}
	name := nameOf(c.Found[0])
	for _, other := range c.Found[1:] {
		if nameOf(other) != name {
			return "", withType(&disk.ContentError{Found: c.Found})
		}
	}
	return name, nil
}

// nameOf returns the name of a content as blkid(8) prints it.
func nameOf(f diskprobe.Found) string {
	if f.Kind == diskprobe.Data {
		return "unknown data"
	}
	return cmp.Or(blkidNames[f.Name], f.Name)
}

// blkidNames are the names that differ from those of package diskprobe.
var blkidNames = map[string]string{
	"lvm1": "LVM1_member", "lvm2": "LVM2_member", "luks": "crypto_LUKS", "bitlocker": "BitLocker",
	"linux_raid": "linux_raid_member", "ddf_raid": "ddf_raid_member", "isw_raid": "isw_raid_member",
	"vmfs": "VMFS_volume_member", "bluestore": "ceph_bluestore", "ufs2": "ufs",
	"dm_integrity": "DM_integrity", "dm_verity": "DM_verity_hash", "dm_snapshot": "DM_snapshot_cow",
}

// A mountError is an error that is a peer.MountError, too.
type mountError struct {
	error
	as peer.MountError
}

// Unwrap returns both.
func (e *mountError) Unwrap() []error { return []error{e.error, e.as} }

// withType adds the peer.MountError whose type programs compare.
func withType(err error) error {
	if err == nil {
		return nil
	}
	var tool *disk.ToolError
	kind := peer.UnknownMountError
	switch {
	case errors.Is(err, disk.ErrDamaged):
		kind = peer.HasFilesystemErrors
	case errors.Is(err, disk.ErrNotFormatted):
		kind = peer.UnformattedReadOnly
	case errors.As(err, new(*disk.ContentError)):
		kind = peer.FilesystemMismatch
	case errors.As(err, &tool), errors.Is(err, disk.ErrTooSmall):
		kind = peer.FormatFailed
	case errors.Is(err, disk.ErrInUse), errors.As(err, new(*disk.Error)):
		kind = peer.GetDiskFormatFailed
	}
	return &mountError{err, peer.MountError{Type: kind, Message: err.Error()}}
}

// ResizeFs has the methods of the type of that name of k8s.io/mount-utils, by package disk.
type ResizeFs struct {
	disks *disk.Disks
	ctx   context.Context
	links links
}

// NewResizeFs returns a ResizeFs. Disks needs a mounter: disk.New(disk.Config{Mounter: m}).
// Calls end with ctx.
func NewResizeFs(ctx context.Context, disks *disk.Disks) *ResizeFs {
	return &ResizeFs{disks: disks, ctx: ctx}
}

// Resize grows the file system that is mounted at deviceMountPath to the size of the
// device. An empty deviceMountPath means a device that is not mounted.
func (r *ResizeFs) Resize(devicePath, deviceMountPath string) (bool, error) {
	target, err := r.followLinks(deviceMountPath)
	if err == nil {
		_, err = r.disks.Grow(r.ctx, disk.GrowRequest{Device: devicePath, Target: target})
	}
	return err == nil, err
}

// followLinks returns a path without symbolic links.
func (r *ResizeFs) followLinks(p string) (string, error) {
	return r.links.follow(cmp.Or(r.ctx, context.Background()), nil, p)
}

// NeedResize reports whether the device has room for the file system to grow. It is false
// for a read-only mount or device.
func (r *ResizeFs) NeedResize(devicePath, deviceMountPath string) (bool, error) {
	target, err := r.followLinks(deviceMountPath)
	if err != nil {
		return false, err
	}
	return r.disks.NeedsGrow(r.ctx, disk.GrowRequest{Device: devicePath, Target: target})
}
