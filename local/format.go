package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/diskprobe"
	"github.com/volumekit/volumekit/volume"
	peer "k8s.io/mount-utils"
)

// A formatting is a device that is mounted, and formatted before if need be.
type formatting struct {
	mount.Interface // mounts
	volume          *deviceVolume
	disk            disk
	step            step
	record          record  // of the volume as it is to be
	before          *record // as it was; nil: there was none
	programs        *programs
	// changed: something has been written to the device.
	changed bool
	// final is an error that it is no use to try again after.
	final error
}

// newUUID returns a random UUID for a file system.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// formatOptions are what mkfs needs to know besides what mount-utils tells it.
func (f *formatting) formatOptions() []string {
	switch f.step.fsType {
	case "xfs":
		return []string{"-m", "uuid=" + f.record.FSUUID}
	case "btrfs":
		return []string{"-U", f.record.FSUUID}
	}
	return []string{"-U", f.record.FSUUID, "-E", "nodiscard"} // the marker
}

// Mount formats, checks and mounts what the request names. It is the mounter of a
// util.PodMounts, which makes the directory and takes it back.
func (f *formatting) Mount(ctx context.Context, req mount.Request) error {
	err := f.formatAndMount(ctx, req)
	if errors.Is(err, ErrDeviceSwapped) || errors.Is(err, ErrFileSystemDamaged) || errors.Is(err, ErrDuplicateFileSystem) {
		f.final = err
	}
	if err != nil && f.step.format {
		err = errors.Join(err, f.takeBack())
	}
	return f.failed(err)
}

func (f *formatting) formatAndMount(ctx context.Context, req mount.Request) error {
	if err := f.prepare(ctx); err != nil {
		return err
	}
	inner := &lastStep{Mounter: mountutils.New(f.Interface, mountutils.WithContext(ctx), mountutils.WithTimeout(0))}
	inner.check = func() error { return f.verify() }
	safe := peer.NewSafeFormatAndMount(inner, f.programs)
	err := safe.FormatAndMountSensitiveWithFormatOptions(
		req.Source, req.Target, req.FSType, slices.Clone(req.Options), nil, f.formatOptions())
	if cause := errors.Join(f.programs.refused, inner.err); cause != nil {
		err = cause // with its causes
	}
	err = f.typed(ctx, err)
	if ctx.Err() != nil && err != nil {
		f.changed = f.changed || f.programs.checked // fsck may have been killed
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// typed adds what the error means.
func (f *formatting) typed(ctx context.Context, err error) error {
	var theirs peer.MountError
	switch {
	case errors.As(err, &theirs) && theirs.Type == peer.HasFilesystemErrors:
		return fmt.Errorf("%w: %w", ErrFileSystemDamaged, err)
	case errors.Is(err, syscall.EINVAL) && f.step.fsType == "xfs" && f.isMountedElsewhere(ctx):
		return fmt.Errorf("%w: %w", ErrDuplicateFileSystem, err)
	}
	return err
}

// isMountedElsewhere reports whether another device with a file system of the same UUID
// is mounted, as far as that can be found out.
func (f *formatting) isMountedElsewhere(ctx context.Context) bool {
	mounts, err := f.Interface.List(ctx)
	return err == nil && slices.ContainsFunc(mounts, func(at mount.Info) bool {
		return at.FSType == "xfs" && f.volume.plugin.hasUUID(at, f.record.FSUUID)
	})
}

func (p *Plugin) hasUUID(at mount.Info, uuid string) bool {
	d, err := p.devices.open(at.Source)
	if err != nil {
		return false
	}
	defer func() { _ = d.Close() }()
	facts := d.facts()
	found, err := diskprobe.Probe(d, facts.size)
	return err == nil && facts.major == at.Major && facts.minor == at.Minor &&
		slices.ContainsFunc(found, func(f diskprobe.Found) bool { return f.UUID == uuid })
}

// begin marks the device as one that is being formatted: it runs right before mkfs.
func (f *formatting) begin() error {
	if err := f.checkNode(); err != nil {
		return err
	}
	f.changed = true
	return f.disk.mark(markerOf(f.record.FSUUID))
}

// checkNode fails if the node has become another device's, or the device has another
// medium.
func (f *formatting) checkNode() error {
	facts := f.disk.facts()
	now, err := f.volume.plugin.devices.identify(facts.node)
	if err == nil && (now.number != facts.number || now.identity.replaces(facts.identity)) {
		err = fmt.Errorf("%w: %s", ErrDeviceSwapped, facts.node)
	}
	return err
}

// takeBack forgets that formatting began if the device is still blank: mkfs may be
// missing, and what others put on the device later is not what it has left.
func (f *formatting) takeBack() error {
	found, _, err := probe(f.disk, f.record.FSUUID)
	if err != nil || len(found) > 0 {
		return err
	}
	if err := unmark(f.disk, f.record.FSUUID); err != nil {
		return err
	}
	if f.before == nil || f.before.State == stateFormatting {
		return f.volume.plugin.records.remove(f.volume.name)
	}
	return f.volume.plugin.records.write(f.volume.name, *f.before)
}

// prepare removes what an earlier try has left, and then, since the record tells it
// from other people's data, notes what is about to happen.
func (f *formatting) prepare(ctx context.Context) error {
	if !f.step.format {
		return nil
	}
	if f.step.wipe {
		f.changed = true
		if err := f.disk.wipe(ctx, markerOf(f.before.FSUUID)); err != nil {
			return err
		}
		f.programs.found = nil
	}
	return f.volume.plugin.records.write(f.volume.name, f.record)
}

// errNotFormattedNow: mkfs has ended well, or blkid knows better.
var errNotFormattedNow = errors.New("the device does not carry what it was to be formatted with")

// verify sees that the file system is there, and notes that the device is the
// volume's from now on.
func (f *formatting) verify() error {
	found, _, err := probe(f.disk, f.record.FSUUID)
	if err != nil {
		return err
	}
	there, ok := diskprobe.Only(found)
	if !ok || there.UUID != f.record.FSUUID || there.Name != f.step.fsType {
		return fmt.Errorf("%w: %v", errNotFormattedNow, found)
	}
	if err := unmark(f.disk, f.record.FSUUID); err != nil {
		return err
	}
	if err := f.checkNode(); err != nil {
		return err
	}
	rec := f.record
	rec.State = stateMounted
	if f.before.equals(rec) {
		return nil
	}
	return f.volume.plugin.records.write(f.volume.name, rec)
}

// failed says of an error whether the device has changed.
func (f *formatting) failed(err error) error {
	if err == nil || !f.changed || errors.Is(err, mount.ErrUncertain) {
		return err
	}
	return fmt.Errorf("%w: %w", mount.ErrUncertain, err)
}

// A lastStep is the mounter of SafeFormatAndMount. It checks before it mounts, and
// keeps the error, of which mount-utils passes on the text alone.
type lastStep struct {
	*mountutils.Mounter
	check func() error
	err   error
}

// MountSensitive implements Interface of mount-utils.
func (l *lastStep) MountSensitive(source, target, fsType string, options, sensitive []string) error {
	if l.err = l.check(); l.err == nil {
		l.err = l.Mounter.MountSensitive(source, target, fsType, options, sensitive)
	}
	return l.err
}

// mountFormatted mounts a device where nothing is mounted, in the directory dir.
func (v *deviceVolume) mountFormatted(ctx context.Context, dir string, d disk, s step, rec *record) error {
	facts := d.facts()
	if err := v.plugin.records.disown(v.name, facts.identity); err != nil {
		return util.Transient(err)
	}
	f := &formatting{Interface: v.plugin.config.Mounter, volume: v, disk: d, step: s, before: rec}
	f.record = record{State: stateFormatting, UID: v.uid, Path: v.path, FSType: s.fsType, FSUUID: s.uuid, Disk: facts.identity}
	if s.format {
		f.record.FSUUID = newUUID()
	}
	if v.uid == "" && rec != nil {
		f.record.UID = rec.UID
	}
	f.programs = &programs{ctx: ctx, disk: d, run: v.plugin.run, found: v.found}
	if s.format {
		f.programs.beforeFormat = f.begin
	}
	// Not by a descriptor, as the programs have it: the mount table would name that, and
	// for as long as it is mounted nobody could tell what is. Afterwards it is checked.
	req := mount.Request{Source: facts.node, FSType: s.fsType, Options: v.mountOptions(facts.readOnly)}
	err := util.NewPodMounts(v.plugin.host, f).Mount(ctx, dir, req)
	if f.final != nil && volume.KindOf(err) == volume.Transient {
		return f.final
	}
	if err != nil {
		return err
	}
	return v.checkMountedDevice(context.WithoutCancel(ctx), dir, facts)
}

// checkMountedDevice undoes a mount of another device, whose node took this one's place
// right before.
func (v *deviceVolume) checkMountedDevice(ctx context.Context, dir string, facts diskFacts) error {
	at, _, err := v.plugin.mounts.At(ctx, dir)
	if err != nil {
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	}
	if err := v.checkSource(at, facts); err != nil {
		return errors.Join(err, v.plugin.mounts.Unmount(ctx, dir))
	}
	return nil
}
