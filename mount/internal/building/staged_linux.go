package building

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/staging"
	"golang.org/x/sys/unix"
)

// openArea opens a staging area with a place, a directory or a file, and returns them as a tree without a mount.
func openArea(stagingDir string, isDir bool) (*Tree, error) {
	area, err := staging.Open(stagingDir)
	if err != nil {
		return nil, fmt.Errorf("staging: %w", err)
	}
	t := &Tree{FD: -1, area: area}
	if t.place, err = area.CreatePlace(isDir); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// openRoot opens the mount at the place.
func (t *Tree) openRoot() (err error) {
	t.FD, err = unix.Open(t.place, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return err
}

// buildStaged builds a tree by mount(2). The mount lacks its flags for a moment, but only in
// the staging area.
func (d *draft) buildStaged(stagingDir string) (*Tree, error) {
	if !d.spec.IDMap.IsEmpty() {
		return nil, errNoIDMap
	}
	t, err := openArea(stagingDir, d.source == nil || d.source.ID.Dir)
	if err != nil {
		return nil, err
	}
	if d.source != nil {
		err = d.bindAt(t.place)
	} else {
		err = d.mountFileSystemAt(t.place)
	}
	if err == nil {
		err = setPropagation(t.place, d.spec)
	}
	if err == nil {
		err = t.openRoot()
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// bindAt binds the source, and then sets the flags, which mount(2) ignores for a bind mount.
func (d *draft) bindAt(place string) error {
	before, err := mountinfo.StatusOf(d.source.FD)
	if err != nil {
		return err
	}
	recursive := uintptr(0)
	if d.spec.Submounts == spec.IncludeSubmounts || d.source.proof != noProof {
		recursive = unix.MS_REC
	}
	if err := unix.Mount(kernel.DescriptorPath(d.source.FD), place, "", unix.MS_BIND|recursive, ""); err != nil {
		return kernel.ExplainMissingProc(err)
	}
	if d.source.proof != noProof {
		recursive = 0 // requireLone accepts no submounts
		if err := requireLone(place); err != nil {
			return err
		}
	}
	if err := changeFlags(place, options.FlagsOf(before.Attrs), d.spec.Options); err != nil {
		return err
	}
	if recursive != 0 {
		return changeSubmountFlags(place, d.spec.Options)
	}
	return nil
}

// changeFlags sets the flags of the mount at place, which has the flags before, by mount(2).
func changeFlags(place string, before options.Flags, o options.Options) error {
	return unix.Mount("", place, "", unix.MS_REMOUNT|unix.MS_BIND|o.Apply(before).Bits(), "")
}

// changeSubmountFlags sets the flags of all mounts below place. It fails if a mount is hidden
// under another one: no path leads to it, and it could become visible without its flags.
func changeSubmountFlags(place string, o options.Options) error {
	wanted := map[int]options.Flags{}
	err := eachBelow(place, func(mount mountinfo.Entry) error {
		wanted[mount.ID] = o.Apply(mount.Flags)
		err := changeFlags(mount.Mountpoint, mount.Flags, o)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return nil // hidden: the comparison below finds it
		}
		return err
	})
	if err != nil {
		return err
	}
	return eachBelow(place, func(mount mountinfo.Entry) error {
		if mount.Flags != wanted[mount.ID] {
			return fmt.Errorf("a hidden mount below the source: requires mount_setattr(2), Linux 5.12: %w", errors.ErrUnsupported)
		}
		return nil
	})
}

// eachBelow calls do for each mount below place, in the order of the mount table.
func eachBelow(place string, do func(mountinfo.Entry) error) error {
	table, err := mountinfo.Read(context.Background())
	if err != nil {
		return err
	}
	for _, mount := range table {
		if rest, ok := mountinfo.CutDir(place, mount.Mountpoint); !ok || rest == "" {
			continue
		}
		if err := do(mount); err != nil {
			return err
		}
	}
	return nil
}

// mountFileSystemAt mounts a file system. Options are one text for mount(2), but super options
// are bits.
func (d *draft) mountFileSystemAt(place string) error {
	bits, data := options.SplitBits(d.spec.Options.Data)
	for _, secret := range d.spec.Secrets {
		data = append(data, secret.Reveal())
	}
	text := strings.Join(data, ",")
	if len(text) > maxText { // the kernel would cut it
		return fmt.Errorf("%d bytes of options: %w", len(text), unix.E2BIG)
	}
	err := unix.Mount(d.spec.Source, place, d.spec.FSType, bits|d.spec.Options.Set.Bits(), text)
	if errors.Is(err, unix.ENODEV) {
		return typeError(d.spec.FSType, err)
	}
	return err
}
