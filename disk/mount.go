package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/diskprobe"
	"github.com/volumekit/volumekit/util/progress"
)

// A MountRequest is a device to format, if it is blank, and to mount.
type MountRequest struct {
	// Device is the path of the device, which is also the source in the mount table.
	Device string
	// Target is an existing directory.
	Target string
	// FSType is ext2, ext3, ext4, xfs or btrfs. Empty: that of the device, or
	// [DefaultType] if the device is blank.
	FSType string
	// Options are mount options of mount.Request. With "ro" nothing is written to the
	// device.
	Options []string
	// Secrets are mount options that stay out of errors and logs.
	Secrets []mount.Secret
	// FormatOptions are as in FormatRequest.
	FormatOptions []string
	// New says that the device has never carried data: the caller has just made it, by lvcreate
	// or luksFormat. It is the only way to format a device with unknown bytes, which are lost;
	// content that package util/diskprobe knows, such as a file system or a partition table, is
	// a *ContentError all the same, also if random bytes happen to look like it: wipefs(8)
	// removes it. Repeat a failed call with New; once a call has succeeded, never set it again
	// for the device: a damaged file system, and data behind a wrong key of plain dm-crypt, look
	// like unknown bytes.
	New bool
	// Grow grows the file system to the size of the device after the mount, if it is
	// smaller: for a volume that was cloned, or enlarged while it was not mounted.
	Grow bool
	// Propagation is as in mount.Request.
	Propagation mount.Propagation
}

// FormatAndMount mounts a device. A blank one is formatted first; a file system is checked
// first (fsck -a, unless the mount or the device is read-only or the program is not
// installed). A mount of the device at the target with the requested flags is no error, and
// nothing is done then but Grow. With other flags, or of another device, it is
// mount.ErrMounted.
//
// A device whose file system is mounted already, at another target or in another mount
// namespace, is mounted once more: only its type is read then. A device with another user, or
// another type, is ErrInUse, and so is an ext or xfs that is to be mounted read-only and writable
// at once, which the kernel refuses. A btrfs of several devices is recognized by the one that the
// mount table shows.
//
// After an error that does not wrap mount.ErrUncertain nothing is mounted at the target; the
// device may be formatted or repaired. After one that does the same call continues.
func (d *Disks) FormatAndMount(ctx context.Context, r MountRequest) error {
	f := Format{FSType: r.FSType, Options: r.FormatOptions, New: r.New}
	err := f.check()
	if err == nil {
		err = checkPath("Target", r.Target)
	}
	if err == nil {
		err = d.checkMounter()
	}
	if err != nil {
		return err
	}
	readOnly, err := r.isReadOnly()
	if err != nil {
		return err
	}
	f.FSType = r.FSType
	return d.use(ctx, "mount", r.Device, func(ctx context.Context, dev *Device) error {
		return dev.formatAndMount(ctx, r, f, readOnly || dev.Info().ReadOnly)
	})
}

// allowAllOptions accepts all options: the mounter has the rules.
var allowAllOptions = mount.Allow{SUID: true, Dev: true, Context: true}

func (r MountRequest) isReadOnly() (bool, error) {
	o, err := mount.ParseOptions(r.Options, allowAllOptions)
	if err != nil {
		return false, err
	}
	return o.ReadOnly(), nil
}

func (d *Device) formatAndMount(ctx context.Context, r MountRequest, f Format, readOnly bool) error {
	if err := d.Claim(ctx); err != nil {
		return err
	}
	at, mounted, err := d.disks.mountAt(ctx, r.Target)
	if err != nil {
		return err
	}
	fsType := at.FSType
	if !mounted {
		f.Begin = func() error { // not for a missing target
			_, err := d.disks.mounter.IsMountPoint(ctx, r.Target)
			return err
		}
		if fsType, err = d.prepare(ctx, f, readOnly); err != nil {
			return err
		}
	} // or else the mounter compares
	if mounted && r.FSType != "" {
		fsType = r.FSType
	}
	options := r.Options
	if d.Info().ReadOnly && !slices.Contains(options, "ro") {
		options = append(slices.Clone(options), "ro")
	}
	err = d.Mount(ctx, mount.Request{
		Source: d.Info().Path, Target: r.Target, FSType: fsType, Options: options, Secrets: r.Secrets, Propagation: r.Propagation,
	})
	if err != nil || !r.Grow || readOnly {
		return err
	}
	needed, err := d.NeedsGrow(ctx, fsType, r.Target)
	if err == nil && needed {
		err = d.Grow(ctx, fsType, r.Target)
	}
	return uncertain(err) // it is mounted
}

// prepare formats or checks the device, and returns its file system.
func (d *Device) prepare(ctx context.Context, f Format, readOnly bool) (fsType string, err error) {
	used, err := d.InUse(ctx, "")
	if err != nil {
		return "", err
	}
	c, err := d.Probe(ctx)
	if err != nil {
		return "", err
	}
	if used {
		return d.typeInUse(ctx, c, f.FSType)
	}
	s, err := plan(c, wish{fsType: f.FSType, readOnly: readOnly, isNew: f.New})
	switch {
	case err != nil:
		return "", err
	case s.format:
		f.FSType, f.Replace = s.fsType, s.replace
		return s.fsType, d.Format(ctx, f)
	case readOnly:
		return s.fsType, nil
	}
	_, err = d.Repair(ctx, s.fsType)
	return s.fsType, IgnoreToolFailure(err)
}

// typeInUse returns the type of a mounted file system that can be mounted once more. It returns ErrInUse for
// any other use and any other content, and if a loop device is on the device, which the kernel would not refuse.
func (d *Device) typeInUse(ctx context.Context, c Content, want string) (fsType string, err error) {
	there, ok := c.supported(want)
	if !ok {
		return "", ErrInUse
	}
	if below, err := d.IsBelowLoop(ctx); err != nil || below {
		return "", cmp.Or(err, ErrInUse)
	}
	mounted, err := d.isMounted(ctx, there)
	if err != nil || !mounted {
		return "", cmp.Or(err, ErrInUse)
	}
	return there.Name, nil
}

// isMounted reports whether the file system of the device is mounted, by sysfs and by the mount table. An
// exclusive open by a program is no mount. It may miss a mount in another mount namespace without sysfs.
func (d *Device) isMounted(ctx context.Context, there diskprobe.Found) (bool, error) {
	if isMountedAnywhere(d.Info(), there) {
		return true, nil
	}
	if d.disks.mounter == nil {
		return false, nil
	}
	mounts, err := d.disks.mounter.MountsFrom(ctx, d.Info().Path)
	return len(mounts) > 0, err
}

// A Preparation is a device to format or to check before a mount that is not made by
// [Device.Mount].
type Preparation struct {
	FSType   string   // as in MountRequest
	Options  []string // of mkfs, as in FormatRequest
	ReadOnly bool     // the mount is read-only: nothing is written to the device
	New      bool     // as in MountRequest
}

// Prepare claims the device, formats it if it is blank, and checks its file system
// otherwise, unless that is mounted, as FormatAndMount does. It returns the type of the file system.
func (d *Device) Prepare(ctx context.Context, p Preparation) (fsType string, err error) {
	f := Format{FSType: p.FSType, Options: p.Options, New: p.New}
	if err := f.check(); err != nil {
		return "", err
	}
	f.FSType = p.FSType
	if err := d.Claim(ctx); err != nil {
		return "", err
	}
	fsType, err = d.prepare(ctx, f, p.ReadOnly || d.Info().ReadOnly)
	return fsType, d.failed("prepare", err)
}

// IgnoreToolFailure returns nil for the error of [Device.Repair] if fsck is not installed
// or could not do its work: then the kernel decides whether the file system can be
// mounted. Errors in the file system stay errors, and so does a killed fsck.
func IgnoreToolFailure(err error) error {
	var failure *ToolError
	if err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, mount.ErrUncertain) || !errors.As(err, &failure) {
		return err
	}
	if errors.Is(err, ErrToolMissing) || failure.ExitCode > 0 {
		return nil
	}
	return err
}

// Mount mounts the device: the source of the request is set to its path. If the path leads
// to another device at that moment, the mount is undone, and the error is ErrSwapped.
func (d *Device) Mount(ctx context.Context, r mount.Request) error {
	if err := d.disks.checkMounter(); err != nil {
		return err
	}
	// Not the open file, as the programs: its path would stand in the mount table.
	r.Source = d.Info().Path
	return d.change(ctx, progress.Mount, func() error {
		if err := d.checkNode(); err != nil {
			return err
		}
		if err := d.disks.mounter.Mount(ctx, r); err != nil {
			return d.explain(ctx, r.FSType, d.disks.mounter.List, err)
		}
		return d.verifyMount(context.WithoutCancel(ctx), r.Target)
	})
}

// verifyMount undoes the mount of another device, which took over the path in between.
func (d *Device) verifyMount(ctx context.Context, target string) error {
	at, mounted, err := d.disks.mountAt(ctx, target)
	if err != nil {
		return uncertain(err)
	}
	if mounted {
		err = d.checkMount(at)
	}
	if err == nil {
		err = d.checkNode()
	}
	if !errors.Is(err, ErrSwapped) {
		return uncertain(err)
	}
	if undo := d.disks.mounter.Unmount(ctx, target); undo != nil {
		return uncertain(errors.Join(err, undo))
	}
	return err
}

// checkMount fails with ErrSwapped if a mount is of another device. A mount of btrfs has no
// device number in the mount table: its source is the path at the time of the mount.
func (d *Device) checkMount(at mount.Info) error {
	is := d.Info()
	same := at.Major == is.Major && at.Minor == is.Minor
	if is.Number == 0 || at.Major == 0 {
		same = at.Source == is.Path || d.hasName(at.Source)
	}
	if !same {
		return fmt.Errorf("%w: %s is mounted at %s", ErrSwapped, at.Source, at.Mountpoint)
	}
	return nil
}

// hasName reports whether a path leads to the device.
func (d *Device) hasName(p string) bool {
	if d.Info().Number == 0 || !path.IsAbs(p) {
		return false
	}
	at, err := d.disks.resolve(p)
	if err != nil {
		return false
	}
	is, err := d.disks.devices.Identify(at)
	return err == nil && is.Number == d.Info().Number
}

// mountAt returns the mount at a path.
func (d *Disks) mountAt(ctx context.Context, target string) (mount.Info, bool, error) {
	mounts, err := d.mounter.List(ctx)
	if err != nil {
		return mount.Info{}, false, err
	}
	at, ok := mount.Table(mounts).At(path.Clean(target))
	return at, ok, nil
}

// Explain adds ErrInUse, ErrDirty or ErrDuplicate to err, the error of a mount of the device as fsType
// that the caller has made without [Device.Mount]. It recognizes the cause by the errno that err wraps;
// without a known cause, or if ctx ends first, err stays. Nil stays nil. Mounts, which returns the mount
// table, may still run after Explain has returned then.
func (d *Device) Explain(ctx context.Context, fsType string, mounts func(context.Context) ([]mount.Info, error), err error) error {
	if err == nil {
		return nil
	}
	explained, unknown := await(ctx, d, "explain", func() (error, error) { return d.explain(ctx, fsType, mounts, err), nil })
	if unknown != nil {
		return fmt.Errorf("%w (%w)", err, unknown)
	}
	return explained
}

func (d *Device) explain(ctx context.Context, fsType string, mounts func(context.Context) ([]mount.Info, error), err error) error {
	switch {
	case errors.Is(err, syscall.EBUSY) && !errors.Is(err, ErrInUse):
		return fmt.Errorf("%w: %w", ErrInUse, err)
	case errors.Is(err, syscall.EINVAL) && fsType == "xfs" && d.isCopyOfMounted(ctx, mounts):
		return fmt.Errorf("%w: %w", ErrDuplicate, err)
	case d.Info().ReadOnly && d.needsRecovery(fsType, err):
		return fmt.Errorf("%w: %w", ErrDirty, err)
	}
	return err
}

// needsRecovery reports whether the mount has failed because the journal cannot be replayed
// on a read-only device. Btrfs returns the same error for other reasons.
func (d *Device) needsRecovery(fsType string, err error) bool {
	if fsType != "btrfs" {
		return errors.Is(err, syscall.EROFS)
	}
	const logRoot = 64<<10 + 96
	var root [8]byte
	_, readErr := d.handle.ReadAt(root[:], logRoot)
	return errors.Is(err, syscall.EIO) && readErr == nil && root != [8]byte{}
}

// isCopyOfMounted reports whether another device with an xfs of the same UUID is mounted.
func (d *Device) isCopyOfMounted(ctx context.Context, list func(context.Context) ([]mount.Info, error)) bool {
	c, err := probe(d.handle)
	there, ok := diskprobe.Only(c.Found)
	if err != nil || !ok {
		return false
	}
	mounts, err := list(ctx)
	return err == nil && slices.ContainsFunc(mounts, func(at mount.Info) bool {
		return at.FSType == "xfs" && d.disks.hasUUID(at, there.UUID)
	})
}

func (d *Disks) hasUUID(at mount.Info, uuid string) bool {
	h, err := d.devices.Open(at.Source)
	if err != nil {
		return false
	}
	defer func() { _ = h.Close() }()
	c, err := probe(h)
	isSource := at.Major == 0 || c.Major == at.Major && c.Minor == at.Minor // a table of mount-utils has no numbers
	return err == nil && isSource &&
		slices.ContainsFunc(c.Found, func(f diskprobe.Found) bool { return f.UUID == uuid })
}
