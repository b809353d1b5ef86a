package staging

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// An Area is a private tmpfs for one mount in the making.
type Area struct {
	dir  string
	lock *os.File
}

// Open creates an area in the configured parent, or in the default one.
func Open(configured string) (*Area, error) {
	parent, created, err := openParent(configured)
	if err != nil {
		return nil, err
	}
	sweepParent(parent)
	lock, err := createLock(parent)
	if err != nil {
		return nil, err
	}
	area := &Area{dir: strings.TrimSuffix(lock.Name(), lockSuffix), lock: lock}
	if err := area.mount(); err != nil {
		area.Release()
		if created { // this process may mount nothing, as in a user namespace without a mount namespace
			_ = unix.Rmdir(parent)
		}
		return nil, err
	}
	return area, nil
}

// mount mounts the tmpfs and makes it private: a mount cannot move out of a shared mount, and
// must not appear in other namespaces.
func (a *Area) mount() error {
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("volumekit", a.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64k"); err != nil {
		return err
	}
	return unix.Mount("", a.dir, "", unix.MS_PRIVATE, "")
}

// CreatePlace creates the place, a directory or a file, and returns its path.
func (a *Area) CreatePlace(isDir bool) (string, error) {
	place := filepath.Join(a.dir, "mount")
	if isDir {
		return place, os.Mkdir(place, 0o700)
	}
	return place, os.WriteFile(place, nil, 0o600)
}

// Clear unmounts the area with all mounts in it, and removes its directory. A mount that
// another process is about to attach in it fails: the kernel refuses a detached tree.
func (a *Area) Clear() error {
	_ = unix.Mount("", a.dir, "", unix.MS_REC|unix.MS_PRIVATE, "")
	for unix.Unmount(a.dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
	}
	return unix.Rmdir(a.dir)
}

// Release removes the area. The lock is released last, so that the area is not stale before.
// If the area cannot be removed, the file of the lock stays for a sweep.
func (a *Area) Release() {
	if err := a.Clear(); err == nil || errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(a.lock.Name())
	}
	_ = a.lock.Close()
}
