package mountutils

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
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
}

// NewSafeFormatAndMount returns a SafeFormatAndMount that mounts with mounter. Disks takes
// the place of the exec.Interface: disk.New(disk.Config{}), or those of a
// disktest.Machine in a test. A format takes as long as mkfs; it ends with the context of
// [WithContext], if New returned the mounter.
func NewSafeFormatAndMount(mounter peer.Interface, disks *disk.Disks) *SafeFormatAndMount {
	return &SafeFormatAndMount{Interface: mounter, disks: disks, ctx: contextOf(mounter)}
}

func contextOf(mounter any) context.Context {
	if m, ok := mounter.(*Mounter); ok {
		return m.ctx
	}
	return context.Background()
}

// FormatAndMount formats a device if it is blank, checks its file system otherwise, and
// mounts it. A device that is in use elsewhere is refused with disk.ErrInUse; other content
// than the file system, with a *disk.ContentError.
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
	mounted, err := s.isMounted(source, target)
	if err != nil {
		return withType(err)
	}
	if mounted {
		return withType(s.MountSensitive(source, target, typeOrDefault(fsType), options, sensitiveOptions))
	}
	isReadOnly := func(option string) bool { return option == "ro" }
	p := disk.Preparation{
		FSType: fsType, Options: formatOptions,
		ReadOnly: slices.ContainsFunc(splitOptions(options), isReadOnly) || slices.ContainsFunc(splitOptions(sensitiveOptions), isReadOnly),
	}
	var mounting atomic.Bool
	err = s.disks.Use(s.ctx, source, func(ctx context.Context, d *disk.Device) error {
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
		return s.MountSensitive(d.Info().Path, target, fsType, options, sensitiveOptions)
	})
	if err != nil && s.ctx.Err() != nil && mounting.Load() {
		err = mount.AsUncertain(err)
	}
	return withType(err)
}

func typeOrDefault(fsType string) string {
	if fsType == "" {
		return disk.DefaultType
	}
	return fsType
}

// requireMounted reports whether the device is mounted at the target.
func (s *SafeFormatAndMount) isMounted(source, target string) (bool, error) {
	points, err := s.List()
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(points, func(p peer.MountPoint) bool { return p.Path == target })
	if at < 0 {
		return false, nil
	}
	is, err := s.disks.Identify(s.ctx, source)
	return err == nil && (points[at].Device == source || points[at].Device == is.Path), err
}

// GetDiskFormat returns the type of the file system on a device, "" if the device is blank
// or has the remains of an interrupted format, and a text for other content, as that of
// k8s.io/mount-utils.
func (s *SafeFormatAndMount) GetDiskFormat(device string) (string, error) {
	c, err := s.disks.Probe(s.ctx, device)
	switch fileSystem, ok := c.FileSystem(); {
	case err != nil:
		return "", withType(err)
	case ok:
		return fileSystem.Name, nil
	case c.IsBlank(), c.Interrupted() != "":
		return "", nil
	}
	return "unknown data, probably partitions", nil
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
	case errors.As(err, new(*disk.Error)):
		kind = peer.GetDiskFormatFailed
	}
	return &mountError{err, peer.MountError{Type: kind, Message: err.Error()}}
}

// ResizeFs has the methods of the type of that name of k8s.io/mount-utils, by package disk.
type ResizeFs struct {
	disks *disk.Disks
	ctx   context.Context
}

// NewResizeFs returns a ResizeFs. Disks needs a mounter: disk.New(disk.Config{Mounter: m}).
// Calls end with ctx.
func NewResizeFs(ctx context.Context, disks *disk.Disks) *ResizeFs {
	return &ResizeFs{disks: disks, ctx: ctx}
}

// Resize grows the file system that is mounted at deviceMountPath to the size of the
// device. An empty deviceMountPath means a device that is not mounted.
func (r *ResizeFs) Resize(devicePath, deviceMountPath string) (bool, error) {
	_, err := r.disks.Grow(r.ctx, disk.GrowRequest{Device: devicePath, Target: deviceMountPath})
	return err == nil, err
}

// NeedResize reports whether the device has room for the file system to grow. It is false
// for a read-only mount or device.
func (r *ResizeFs) NeedResize(devicePath, deviceMountPath string) (bool, error) {
	return r.disks.NeedsGrow(r.ctx, disk.GrowRequest{Device: devicePath, Target: deviceMountPath})
}
