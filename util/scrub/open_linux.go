package scrub

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

var errMounted = fmt.Errorf("the entry is a mount point: %w", unix.EXDEV)

func openRoot(name string) (int, Identity, error) {
	fd, at, err := beneath.OpenRoot(name)
	return fd, Identity{Device: at.Device, Inode: at.Inode, Mount: at.Mount}, err
}

// openIn opens an entry of an open directory, to list it. The entry must be a directory in
// home's mount: a mount point is EXDEV, an entry that is not a directory ENOTDIR or ELOOP.
func openIn(dir int, name string, home Identity) (int, beneath.Place, error) {
	fd, err := beneath.Open(dir, name, beneath.ToList, home.Mount)
	if errors.Is(err, unix.EXDEV) {
		return -1, beneath.Place{}, errMounted
	}
	if err != nil {
		return -1, beneath.Place{}, err
	}
	at, err := confirm(fd, home)
	return fd, at, err
}

// confirm returns the place of a descriptor, or closes the descriptor if its mount differs from
// home's. Devices may differ in one mount: each subvolume of btrfs has one of its own.
func confirm(fd int, home Identity) (beneath.Place, error) {
	at, err := beneath.Identify(fd)
	if err == nil && at.Mount != home.Mount {
		err = errMounted
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return at, err
}

// kindOf returns the type of an entry as getdents64(2) encodes it.
func kindOf(dir int, name string) (uint8, error) {
	var x unix.Statx_t
	err := unix.Statx(dir, name, beneath.Quiet, unix.STATX_TYPE, &x)
	return uint8(x.Mode & unix.S_IFMT >> 12), err
}

func closeDir(fd int) error { return unix.Close(fd) }
