package mount

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func (m *Mounter) unmount(ctx context.Context, c *claim, path string) error {
	parent, name, err := lookup{m: m, ctx: ctx}.parent(path)
	if err != nil {
		return err
	}
	defer closeFD(parent)
	if mounted, err := isMountPointAt(parent, name); err != nil || !mounted {
		return err
	}
	if !c.take() {
		return errAbandoned
	}
	m.anchors.forget(parent, name)
	return umountAt(parent, name)
}

// umountAt goes by the open directory, not by the mount's own descriptor: that
// would keep the mount busy. EINVAL means "no mount point", since another process
// was faster, or "not yours to unmount"; the mount table knows which. ENOENT of a
// mount that is there means that the path through /proc leads nowhere.
func umountAt(parent int, name string) error {
	err := unix.Unmount(procFD(parent)+"/"+name, unix.UMOUNT_NOFOLLOW)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return err
	}
	mounted, checkErr := isMountPointAt(parent, name)
	switch {
	case checkErr != nil:
		return checkErr
	case !mounted:
		return nil
	case errors.Is(err, unix.ENOENT):
		return errNoProc
	}
	return err
}

// errNoProc is no ENOENT: the mount is there.
var errNoProc = fmt.Errorf("it takes /proc, which is not mounted: %w", errors.ErrUnsupported)
