package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/diskprobe"
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
	if f.step.fsType == "xfs" {
		return []string{"-m", "uuid=" + f.record.FSUUID}
	}
	return []string{"-U", f.record.FSUUID}
}

// Mount formats, checks and mounts what the request names. It is the mounter of a
// util.PodMounts, which makes the directory and takes it back.
func (f *formatting) Mount(ctx context.Context, req mount.Request) error {
	err := f.formatAndMount(ctx, req)
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
	f.changed = f.changed || f.step.format
	err := safe.FormatAndMountSensitiveWithFormatOptions(
		req.Source, req.Target, req.FSType, slices.Clone(req.Options), nil, f.formatOptions())
	if inner.err != nil {
		err = inner.err // with its causes
	}
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// takeBack forgets that formatting began if the device is still blank: mkfs may be
// missing, and what others put on the device later is not what it has left.
func (f *formatting) takeBack() error {
	found, err := diskprobe.Probe(f.disk, f.disk.facts().size)
	if err != nil || len(found) > 0 {
		return err
	}
	if f.before == nil || f.before.State == stateFormatting {
		return f.volume.plugin.records.remove(f.volume.name)
	}
	return f.volume.plugin.records.write(f.volume.name, *f.before)
}

// prepare notes what is about to happen, and removes what an earlier try has left.
func (f *formatting) prepare(ctx context.Context) error {
	if !f.step.format {
		return nil
	}
	if err := f.volume.plugin.records.write(f.volume.name, f.record); err != nil {
		return err
	}
	if !f.step.wipe {
		return nil
	}
	f.changed = true
	if err := f.disk.wipe(ctx); err != nil {
		return err
	}
	f.programs.found = nil
	return nil
}

// errNotFormattedNow: mkfs has ended well, or blkid knows better.
var errNotFormattedNow = errors.New("the device does not carry what it was to be formatted with")

// verify sees that the file system is there, and notes that the device is the
// volume's from now on.
func (f *formatting) verify() error {
	facts := f.disk.facts()
	found, err := diskprobe.Probe(f.disk, facts.size)
	if err != nil {
		return err
	}
	there, ok := diskprobe.Only(found)
	if !ok || there.UUID != f.record.FSUUID || there.Name != f.step.fsType {
		return fmt.Errorf("%w: %v", errNotFormattedNow, found)
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
	f.programs = &programs{ctx: ctx, mayFormat: s.format, run: v.plugin.run, found: v.found}
	req := mount.Request{Source: facts.node, FSType: s.fsType, Options: v.mountOptions(facts.readOnly)}
	return util.NewPodMounts(v.plugin.host, f).Mount(ctx, dir, req)
}
