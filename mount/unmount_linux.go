package mount

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

func unmount(c *claim, path string) error {
	parent, name, err := safepath.OpenParent(path)
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
	return umountAt(parent, name)
}

// umountAt goes by the open directory, not by the mount's own descriptor: that
// would keep the mount busy. EINVAL means "no mount point" or "not yours to
// unmount"; the mount table knows which.
func umountAt(parent int, name string) error {
	err := unix.Unmount(fmt.Sprintf("%s/%s", procFD(parent), name), unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) {
		if mounted, checkErr := isMountPointAt(parent, name); checkErr == nil && !mounted {
			return nil
		}
	}
	return err
}
