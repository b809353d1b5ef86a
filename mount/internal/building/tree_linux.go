package building

import (
	"fmt"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/internal/staging"
	"golang.org/x/sys/unix"
)

// A Tree is a complete mount that is not visible yet.
type Tree struct {
	FD     int    // its root; while it is open the mount is busy
	unique uint64 // its unique mount ID; 0: unknown
	place  string // in the staging area; empty: the tree is detached
	area   *staging.Area
}

// IsStaged reports whether the tree is in a staging area. It can be attached to an open
// directory only, not to a name.
func (t *Tree) IsStaged() bool { return t.place != "" }

// AttachTo attaches the tree on top of the file dir, or of the file name in it.
func (t *Tree) AttachTo(dir int, name string) error {
	const detached = unix.MOVE_MOUNT_F_EMPTY_PATH
	switch {
	case t.IsStaged():
		return kernel.ExplainMissingProc(unix.Mount(t.place, kernel.DescriptorPath(dir), "", unix.MS_MOVE, ""))
	case name != "":
		return unix.MoveMount(t.FD, "", dir, name, detached)
	}
	return unix.MoveMount(t.FD, "", dir, "", detached|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// Release closes the tree and its staging area. A tree that was not attached is gone then.
func (t *Tree) Release() {
	kernel.Close(t.FD)
	if t.area != nil {
		t.area.Release()
	}
}

// verifySource compares the tree with its source, and finds the unique mount ID. It does not
// wait for a server.
func (t *Tree) verifySource(source *Source) error {
	id, unique, err := kernel.IdentifyUnique(t.FD)
	if err != nil {
		return err
	}
	t.unique = unique
	if !id.SameObject(source.ID) {
		return fmt.Errorf("%w: the mount shows another file than the source", failure.ErrNotAsRequested)
	}
	return nil
}

// Status reads the tree's record, which exists after it was attached. Without statmount(2) the
// error wraps errors.ErrUnsupported.
func (t *Tree) Status() (record.Basic, error) {
	if t.unique != 0 {
		return record.ReadBasic(t.unique)
	}
	return mountinfo.StatMount(t.FD)
}
