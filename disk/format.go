package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/diskprobe"
	"github.com/volumekit/volumekit/util/progress"
)

// A FormatRequest is a file system to make.
type FormatRequest struct {
	// Device is the path of the device.
	Device string
	// FSType is ext2, ext3, ext4, xfs or btrfs. Empty: [DefaultType].
	FSType string
	// Options are arguments of mkfs, such as "-m", "1". They must be trusted: mkfs.ext4 -d
	// copies files of the node. The UUID is not for them to set.
	Options []string
	// New is as in MountRequest.
	New bool
}

// Format makes a file system on a blank device, on one with the remains of an interrupted format, or
// on a new one with unknown bytes. Other content is a [*ContentError]; a file system of the requested
// type, too: use FormatAndMount for a call that may be repeated. After an error that does not wrap
// mount.ErrUncertain the device is unchanged, or blank again; after one that does the same call
// formats again.
func (d *Disks) Format(ctx context.Context, r FormatRequest) error {
	f := Format{FSType: r.FSType, Options: r.Options, New: r.New}
	if err := f.check(); err != nil {
		return err
	}
	return d.use(ctx, "format", r.Device, func(ctx context.Context, dev *Device) error {
		if err := dev.checkUnused(ctx); err != nil {
			return err
		}
		c, err := dev.Probe(ctx)
		if err != nil {
			return err
		}
		f.Replace = c.Interrupted()
		return dev.Format(ctx, f)
	})
}

// Format is how a [Device] is formatted.
type Format struct {
	FSType  string   // as in FormatRequest
	Options []string // as in FormatRequest
	// UUID is the new UUID of the file system. Empty: one of [NewUUID].
	UUID string
	// Replace is the UUID of the interrupted format whose remains are erased first. Empty:
	// the device must be blank.
	Replace string
	// New is as in MountRequest.
	New bool
	// Begin, if it is not nil, runs when the device is blank, before the marker is written:
	// a caller that keeps records writes them here. After its error the device is blank.
	Begin func() error
}

func (f *Format) check() error {
	if f.FSType == "" {
		f.FSType = DefaultType
	}
	if err := checkType(f.FSType); err != nil {
		return err
	}
	for i, option := range f.Options {
		if strings.ContainsRune(option, 0) {
			return operation.Refuse(fmt.Sprintf("Options[%d]", i), option, "must not contain NUL")
		}
	}
	if f.UUID == "" {
		f.UUID = NewUUID()
	}
	if !uuidPattern.MatchString(f.UUID) {
		return operation.Refuse("UUID", f.UUID, "must be a UUID in lower case")
	}
	return nil
}

func checkType(fsType string) error {
	if slices.Contains(types, fsType) {
		return nil
	}
	return operation.Refuse("FSType", fsType, "must be one of "+strings.Join(types, ", "))
}

// Format makes a file system on the device, which the caller has claimed. It probes the
// device once more, and verifies the result. See [Disks.Format].
func (d *Device) Format(ctx context.Context, f Format) error {
	if err := f.check(); err != nil {
		return err
	}
	return d.change(ctx, progress.Format, func() error {
		err := d.format(ctx, f)
		if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctxend.Error(ctx), err)
		}
		return err
	})
}

// format: each step before mkfs leaves the device blank, or with the marker.
//
//	remains, or unknown bytes of a new device -> marker -> blank -> Begin -> marker -> mkfs -> verified -> without marker
func (d *Device) format(ctx context.Context, f Format) error {
	mkfs := "mkfs." + f.FSType
	if d.Info().ReadOnly {
		return ErrReadOnly
	}
	if err := d.disks.programs.LookPath(mkfs); err != nil {
		return err
	}
	unlock, err := d.lockFormat()
	if err != nil {
		return err
	}
	defer unlock()
	c, err := probe(d.handle)
	if err != nil {
		return err
	}
	if !f.mayErase(c) {
		return &ContentError{Found: c.all(), Want: f.FSType}
	}
	if !c.IsBlank() {
		if err := d.erase(ctx, f); err != nil {
			return err
		}
	}
	if ctx.Err() != nil { // the caller has left
		return ctxend.Error(ctx)
	}
	if f.Begin != nil {
		if err := f.Begin(); err != nil {
			return err
		}
	}
	if err := d.checkNode(); err != nil {
		return err
	}
	if err := d.mark(f); err != nil {
		return err
	}
	if err := d.run(ctx, mkfs, f.arguments()...); err != nil {
		return d.revertFormat(f, err)
	}
	return uncertain(d.finishFormat(f))
}

// lockFormat keeps formats of other processes off the device.
func (d *Device) lockFormat() (unlock func(), err error) {
	if d.handle.File() == nil {
		return func() {}, nil
	}
	locked, err := openLocked(d.handle.File())
	if err != nil {
		return nil, err
	}
	return func() { _ = locked.Close() }, nil
}

// mayErase reports whether the content may be lost: nothing, the remains that f replaces, or
// unknown bytes of a new device.
func (f *Format) mayErase(c Content) bool {
	return c.IsBlank() || f.Replace != "" && c.IsRemains(f.Replace) || f.New && c.isUnknown()
}

// erase makes the device blank.
func (d *Device) erase(ctx context.Context, f Format) error {
	return d.overwrite(f.FSType, f.mayErase, func(w io.WriterAt) error {
		return wipe(ctx, w, d.Info().Size, markerOf(cmp.Or(f.Replace, f.UUID)))
	})
}

// mark writes the marker on a blank device.
func (d *Device) mark(f Format) error {
	return d.overwrite(f.FSType, Content.IsBlank, func(w io.WriterAt) error {
		_, err := w.WriteAt(markerOf(f.UUID), 0)
		return err
	})
}

// overwrite writes to the device if accept returns true for its content. The exclusive open keeps out
// mounts, and programs that open the device exclusively, between the probe and the write.
func (d *Device) overwrite(want string, accept func(Content) bool, write func(io.WriterAt) error) error {
	begun := false
	err := d.handle.Write(func(w io.WriterAt) error {
		c, err := probe(d.handle)
		if err == nil && !accept(c) {
			err = &ContentError{Found: c.all(), Want: want}
		}
		if err != nil {
			return err
		}
		begun = true
		return write(w)
	})
	if begun { // the write or its sync has failed
		err = uncertain(err)
	}
	return err
}

// arguments returns the arguments of mkfs. Options of the request come before the UUID.
func (f *Format) arguments() []string {
	switch f.FSType {
	case "xfs":
		return slices.Concat([]string{"-f"}, f.Options, []string{"-m", "uuid=" + f.UUID, inherited})
	case "btrfs":
		return slices.Concat(f.Options, []string{"-U", f.UUID, inherited})
	}
	options, extended := cutExtended(f.Options)
	extended = append(extended, "nodiscard") // a discard would erase the marker
	return slices.Concat([]string{"-F", "-m0"}, options, []string{"-U", f.UUID, "-E", strings.Join(extended, ","), inherited})
}

// cutExtended separates the values of -E: mkfs.ext4 honours only the last -E.
func cutExtended(options []string) (rest, extended []string) {
	for i := 0; i < len(options); i++ {
		value, is := strings.CutPrefix(options[i], "-E")
		switch {
		case !is:
			rest = append(rest, options[i])
		case value != "":
			extended = append(extended, value)
		case i+1 < len(options):
			i++
			extended = append(extended, options[i])
		}
	}
	return rest, extended
}

// finishFormat verifies the file system and removes the marker.
func (d *Device) finishFormat(f Format) error {
	c, err := probe(d.handle)
	if err != nil {
		return err
	}
	there, ok := diskprobe.Only(c.Found)
	if !ok || c.inProgress || there.UUID != f.UUID || there.Name != f.FSType {
		return fmt.Errorf("%w: %v", errNotMade, c.Found)
	}
	if err := d.unmark(c, f.UUID); err != nil {
		return err
	}
	return d.checkNode()
}

func (d *Device) unmark(c Content, uuid string) error {
	if c.Marker != uuid {
		return nil
	}
	return writeSector(d.handle, make([]byte, markerSize))
}

// revertFormat removes the marker after mkfs has failed, if the device is still blank:
// data that other programs write later must not look like remains.
func (d *Device) revertFormat(f Format, failure error) error {
	c, err := probe(d.handle)
	if err == nil && len(c.Found) > 0 {
		return uncertain(failure)
	}
	if err == nil {
		err = d.unmark(c, f.UUID)
	}
	if err != nil {
		return uncertain(errors.Join(failure, err))
	}
	if d.Info().Size < smallest[f.FSType] {
		return fmt.Errorf("%w: %w", ErrTooSmall, failure)
	}
	return failure
}

// smallest are the sizes in bytes below which mkfs refuses, as of e2fsprogs 1.47, xfsprogs
// 6.1 and btrfs-progs 6.2. The exit status of mkfs does not tell the reason.
var smallest = map[string]int64{"ext2": 112 << 10, "ext3": 112 << 10, "ext4": 112 << 10, "xfs": 300 << 20, "btrfs": 109 << 20}
