package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A stageArea is a private tmpfs, for one mount in the making. Beside its
// directory lies a file that its process holds locked, so that what a killed
// process has left is known and removed by the next.
type stageArea struct {
	dir  string
	lock *os.File
}

// lockSuffix makes the name of the lock from that of the directory.
const lockSuffix = ".lock"

func openStage(configured string) (*stageArea, error) {
	parent, err := stagingDir(configured)
	if err != nil {
		return nil, err
	}
	sweepDir(parent)
	lock, err := lockNew(parent)
	if err != nil {
		return nil, err
	}
	area := &stageArea{dir: strings.TrimSuffix(lock.Name(), lockSuffix), lock: lock}
	if err := area.mount(); err != nil {
		area.release()
		return nil, err
	}
	return area, nil
}

// mount makes the tmpfs, and makes it private: a mount cannot be moved out of a
// shared one, and must not appear in other namespaces meanwhile.
func (a *stageArea) mount() error {
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("volumekit", a.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64k"); err != nil {
		return err
	}
	return unix.Mount("", a.dir, "", unix.MS_PRIVATE, "")
}

// release takes the area down with whatever is still mounted in it. The lock goes
// last: until then the area is not somebody's leftover.
func (a *stageArea) release() {
	clearStage(a.dir)
	_ = os.Remove(a.lock.Name())
	_ = a.lock.Close()
}

// clearStage unmounts everything at and below dir and removes it.
func clearStage(dir string) {
	_ = unix.Mount("", dir, "", unix.MS_REC|unix.MS_PRIVATE, "")
	for unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
	}
	_ = unix.Rmdir(dir)
}

// sweepStages removes what killed processes have left, whatever this one mounts
// with: the kernel may have been a newer one since.
func (m *Mounter) sweepStages() {
	for _, dir := range m.stagingDirs() {
		if checkOwn(dir) == nil {
			sweepDir(dir)
		}
	}
}

func (m *Mounter) stagingDirs() []string {
	if m.config.StagingDir != "" {
		return []string{m.config.StagingDir}
	}
	return []string{systemStaging, userStaging()}
}

// sweepDir removes the areas whose processes are gone.
func sweepDir(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, "*"+lockSuffix))
	for _, name := range locks {
		lock, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if tryLock(lock) == nil {
			(&stageArea{dir: strings.TrimSuffix(name, lockSuffix), lock: lock}).release()
			continue
		}
		_ = lock.Close()
	}
}

// lockNew creates a lock file and locks it. A sweep may find it before it is
// locked, and remove it; then it makes another.
func lockNew(parent string) (*os.File, error) {
	for {
		lock, err := os.CreateTemp(parent, "*"+lockSuffix)
		if err != nil {
			return nil, err
		}
		err = tryLock(lock)
		if err == nil && stillThere(lock) {
			return lock, nil
		}
		_ = lock.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
	}
}

func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func stillThere(f *os.File) bool {
	var stat unix.Stat_t
	return unix.Fstat(int(f.Fd()), &stat) == nil && stat.Nlink > 0
}

// systemStaging is where root has its areas.
const systemStaging = "/run/volumekit"

func userStaging() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("volumekit-%d", os.Getuid()))
}

// stagingDir makes sure of the directory for the areas, which nobody else may
// write.
func stagingDir(configured string) (string, error) {
	if configured != "" {
		return configured, ownDir(configured)
	}
	if err := ownDir(systemStaging); err == nil {
		return systemStaging, nil
	}
	own := userStaging()
	return own, ownDir(own)
}

// ownDir makes the directory if need be.
func ownDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return inputError("Config.StagingDir", dir, "the path must be absolute")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkOwn(dir)
}

// checkOwn accepts a directory that belongs to this user and to no one else.
func checkOwn(dir string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || stat.Mode&0o022 != 0 || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of this user's alone: %w", dir, unix.EPERM)
	}
	return nil
}
