package mounting

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/record"
	"golang.org/x/sys/unix"
)

// errOvertaken is the error of an arrival that was overtaken.
var errOvertaken = fmt.Errorf("%w, made at the same time", failure.ErrMounted)

// verify checks that the attached tree is on top of the mount that the target was in, with
// its flags. A mount that another process attaches on top of the tree is not verified.
//
// Before Linux 6.8 the kernel does not report single mounts. verify then checks that the
// target leads to the tree. It does not notice a mount that another process has attached
// below the tree in the same instant, and trusts the call that has set the flags.
func (a *arrival) verify() error {
	status, err := a.tree.Status()
	if errors.Is(err, errors.ErrUnsupported) {
		if err := a.tree.RestorePropagation(a.spec); err != nil {
			return err
		}
		return a.verifyByLookup()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errOvertaken // the mount below the tree was unmounted, and the tree with it
	}
	if err != nil {
		return err
	}
	if status.ParentUniqueID != a.target.mount.Number && !a.spec.Stack {
		return errOvertaken
	}
	if err := verifyFlags(status, a.spec.Options); err != nil {
		return err
	}
	if !status.IDMapped && !a.spec.IDMap.IsEmpty() {
		return fmt.Errorf("%w: the mount has no ID map", failure.ErrNotAsRequested)
	}
	if status.Propagation&unix.MS_SHARED != 0 {
		return a.tree.RestorePropagation(a.spec)
	}
	return nil
}

// verifyFlags compares the flags of a mount with those that the options name.
func verifyFlags(status record.Basic, o options.Options) error {
	flags := options.FlagsOf(status.Attrs)
	switch {
	case flags&o.Set != o.Set, flags&o.Clear != 0:
		return fmt.Errorf("%w: the mount is %v", failure.ErrNotAsRequested, flags)
	case status.SuperReadOnly && o.Clear&options.ReadOnly != 0:
		return fmt.Errorf("%w: the file system is read-only", failure.ErrNotAsRequested)
	}
	return nil
}

// verifyByLookup checks that the target leads to the tree. It compares flags only if the
// options ask for a writable mount, since it reads the mount table for them.
func (a *arrival) verifyByLookup() error {
	want, err := kernel.Identify(a.tree.FD)
	if err != nil {
		return err
	}
	before, err := kernel.Identify(a.target.fd)
	if err != nil {
		return err
	}
	top, err := a.findTopMount()
	if err != nil {
		return err
	}
	if top != want.Mount && top == before.Mount {
		return fmt.Errorf("%w: the target does not lead to the mount", failure.ErrNotAsRequested)
	}
	if a.spec.Options.Clear&options.ReadOnly == 0 {
		return nil
	}
	status, err := mountinfo.StatusOf(a.tree.FD)
	if err != nil {
		return err
	}
	return verifyFlags(status, a.spec.Options)
}

// findTopMount returns the mount ID of the mount that the target leads to. A target without a
// parent (the kernel has reported single mounts when it was opened, and does so no longer)
// leads to the tree, if the mount table has it.
func (a *arrival) findTopMount() (uint64, error) {
	if a.target.parent >= 0 {
		return kernel.TopMountID(a.target.parent, a.target.name)
	}
	entry, err := mountinfo.EntryOf(a.tree.FD)
	return uint64(entry.ID), err
}
