package building

import (
	"context"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/helper"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/text"
	"golang.org/x/sys/unix"
)

// buildByHelper runs a helper in a staging area, and turns its mount into a tree. A helper that
// is late mounts in an area that was removed.
func (b *Builder) buildByHelper(ctx context.Context, program string, s *spec.Spec) (*Tree, error) {
	if strings.HasPrefix(s.Source, "-") {
		return nil, failure.NewInputError("Source", s.Source, "must not begin with \"-\": a helper reads it as an option")
	}
	tier, err := b.SelectTier()
	if err != nil {
		return nil, err
	}
	const isDir = true // a file system is mounted on a directory
	helped, err := openArea(b.StagingDir, isDir)
	if err != nil {
		return nil, err
	}
	tree := helped
	if err = b.runHelper(ctx, program, helped, s); err == nil {
		tree, err = b.adoptHelperMount(helped, draft{tier: tier, spec: s})
	}
	if err != nil || tree != helped {
		helped.Release()
	}
	if err != nil {
		return nil, err
	}
	return tree, nil
}

// runHelper runs the helper, and opens its mount.
func (b *Builder) runHelper(ctx context.Context, program string, helped *Tree, s *spec.Spec) error {
	run, err := helper.NewRun(program, helped.place, s)
	if err != nil {
		return err
	}
	defer run.Close()
	if err := run.Execute(ctx, func() { _ = helped.area.Clear() }); err != nil {
		return err
	}
	if err := helped.openRoot(); err != nil {
		return err
	}
	if err := b.checkHelperMount(helped, s); err != nil {
		return run.Fail(err)
	}
	return nil
}

// checkHelperMount checks that the mount of a helper is of the type and from the source of the
// spec.
func (b *Builder) checkHelperMount(helped *Tree, s *spec.Spec) error {
	is, err := lookup.IsMountPoint(helped.place)
	if err != nil {
		return err
	}
	if !is {
		return fmt.Errorf("%w: the helper has mounted no file system", failure.ErrNotAsRequested)
	}
	entry, err := mountinfo.EntryOf(helped.FD)
	if err != nil {
		return err
	}
	if !b.Helpers.IsMountOf(helper.Mount{FSType: entry.FSType, Source: entry.Source}, s) {
		return fmt.Errorf("%w: the helper has mounted %s from %s", failure.ErrNotAsRequested, text.Quote(entry.FSType), text.Quote(entry.Source))
	}
	return nil
}

// adoptHelperMount returns a clone of the helper's mount, or this mount itself on kernels without
// clones. The tree has exactly the flags of the spec, whichever the helper has set.
func (b *Builder) adoptHelperMount(helped *Tree, d draft) (*Tree, error) {
	exact := *d.spec
	exact.Options = options.Exactly(d.spec.Options.Set)
	d.spec = &exact
	if d.tier == TierClassic {
		return helped, d.completeHelperMount(helped)
	}
	clone, err := d.clone(helped.FD)
	if b.mayFallBack(err) {
		return helped, d.completeHelperMount(helped)
	}
	if err != nil {
		return nil, err
	}
	if err := mapIDs(clone, d.spec); err != nil {
		kernel.Close(clone)
		return nil, err
	}
	return &Tree{FD: clone}, nil
}

// completeHelperMount sets the propagation and the flags of a helper's mount, by mount(2).
func (d *draft) completeHelperMount(helped *Tree) error {
	if !d.spec.IDMap.IsEmpty() {
		return errNoIDMap
	}
	if err := setPropagation(helped.place, d.spec); err != nil {
		return err
	}
	return unix.Mount("", helped.place, "", unix.MS_REMOUNT|unix.MS_BIND|d.spec.Options.Set.Bits(), "")
}
