package mounting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/helper"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/table"
	"github.com/volumekit/volumekit/mount/internal/text"
)

// checkExisting returns nil if the existing mount is the requested one.
func (a *arrival) checkExisting(ctx context.Context) error {
	if a.source == nil {
		return a.checkExistingFileSystem(ctx)
	}
	existing, err := kernel.Identify(a.target.fd)
	if err != nil {
		return err
	}
	if !existing.SameObject(a.source.ID) {
		return failure.ErrMounted
	}
	source, err := mountinfo.StatusOf(a.source.FD)
	if err != nil {
		return err
	}
	status, err := mountinfo.StatusOf(a.target.fd)
	if errors.Is(err, fs.ErrNotExist) {
		return errOvertaken // it was unmounted meanwhile
	}
	if err != nil {
		return err
	}
	if err := a.checkIDMap(status.IDMapped, source.IDMapped); err != nil {
		return err
	}
	if err := a.requireDaemon(ctx, status.Daemon); err != nil {
		return err
	}
	return compareFlags(a.spec.Options.Apply(options.FlagsOf(source.Attrs)), options.FlagsOf(status.Attrs))
}

// checkExistingFileSystem returns nil if the existing mount has the type, the source, the subvolume, the
// ID map and the flags of the spec. It reads the mount table: the file system may not answer, and
// a second tmpfs would have another identity. Block devices have several names, so their numbers are
// compared. Options of the file system are not, since the table shows them as the file system
// prints them, if at all.
func (a *arrival) checkExistingFileSystem(ctx context.Context) error {
	entry, err := mountinfo.EntryOf(a.target.fd)
	if errors.Is(err, fs.ErrNotExist) {
		return errOvertaken
	}
	if err != nil {
		return err
	}
	existing := helper.Mount{FSType: entry.FSType, Source: entry.Source}
	is, known := table.IsOfDevice(ctx, a.maker.Resolver, entry, a.spec.Source)
	if is {
		existing.Source = a.spec.Source
	}
	if !a.showsRoot(entry) || known && !is || !a.maker.Builder.Helpers.IsMountOf(existing, a.spec) {
		return fmt.Errorf("%w: %s %s", failure.ErrMounted, text.Quote(entry.FSType), text.Quote(entry.Source))
	}
	const sourceMapped = false // a file system has no source mount
	if err := a.checkIDMap(entry.IDMapped(), sourceMapped); err != nil {
		return err
	}
	if err := a.requireDaemon(ctx, entry.HasDaemon()); err != nil {
		return err
	}
	return compareFlags(a.spec.Options.Apply(0), entry.Flags)
}

// showsRoot reports whether the root of a mount is the directory that a mount of the spec would have as its root:
// the root of the file system, or the btrfs subvolume that the options name.
func (a *arrival) showsRoot(entry mountinfo.Entry) bool {
	for _, option := range a.spec.Options.Data {
		name, is := strings.CutPrefix(option, "subvol=")
		if is && entry.FSType == "btrfs" {
			return entry.Root == path.Join("/", name)
		}
		if strings.HasPrefix(option, "subvolid=") && entry.FSType == "btrfs" {
			return slices.Contains(entry.SuperOptions, option)
		}
	}
	return entry.Root == "/"
}

// daemonGrace limits the wait for a daemon. A dead one answers at once.
const daemonGrace = time.Second

// requireDaemon fails if the existing mount has a daemon that has gone. One that does not answer in time
// is taken as alive.
func (a *arrival) requireDaemon(ctx context.Context, has bool) error {
	if !has {
		return nil
	}
	if err := a.maker.Probes.CheckDaemon(ctx, a.target.mount, a.target.fd, daemonGrace); err != nil {
		return fmt.Errorf("the existing mount: %w", err)
	}
	return nil
}

// checkIDMap fails if the existing mount has another ID map than the requested one: the map of
// the spec, or that of the source of a bind mount. The arguments report whether the existing
// mount and the source have an ID map.
func (a *arrival) checkIDMap(existingMapped, sourceMapped bool) error {
	if existingMapped != (sourceMapped || !a.spec.IDMap.IsEmpty()) {
		return fmt.Errorf("%w: the existing mount has an ID map: %t", failure.ErrMounted, existingMapped)
	}
	if !hasIDMap(a.target.fd, a.spec.IDMap) {
		return fmt.Errorf("%w: the existing mount has another ID map", failure.ErrMounted)
	}
	return nil
}

// hasIDMap reports whether the mount at fd has the ID map. A kernel that does not report ID
// maps (before Linux 6.15) counts as yes.
func hasIDMap(fd int, want spec.IDMap) bool {
	if want.IsEmpty() {
		return true
	}
	unique, err := kernel.UniqueMountID(fd)
	if err != nil {
		return true
	}
	r := record.Borrow()
	defer r.Return()
	mount, err := r.Read(unique, record.WantUIDs|record.WantGIDs)
	if err != nil || !mount.Has(record.WantUIDs|record.WantGIDs) {
		return true
	}
	return slices.Equal(mount.Strings(record.WantUIDs, mount.UIDsAt, mount.UIDs), spec.KernelLines(want.UIDs)) &&
		slices.Equal(mount.Strings(record.WantGIDs, mount.GIDsAt, mount.GIDs), spec.KernelLines(want.GIDs))
}

// compareFlags fails if the existing mount has other flags.
func compareFlags(want, have options.Flags) error {
	if want != have {
		return &options.FlagsError{Have: have, Want: want}
	}
	return nil
}
