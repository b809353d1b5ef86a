package staging

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockSuffix follows the name of an area in the name of its lock.
const lockSuffix = ".lock"

// createLock creates and locks a file. A sweep may find the file before it is locked and
// remove it; createLock then creates another one.
func createLock(parent string) (*os.File, error) {
	for {
		lock, err := os.CreateTemp(parent, "*"+lockSuffix)
		if err != nil {
			return nil, err
		}
		err = tryLock(lock)
		if err == nil && isLinked(lock) {
			return lock, nil
		}
		_ = lock.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
	}
}

// tryLock locks a file, or fails with EWOULDBLOCK if another process has locked it.
func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// isLinked reports whether the file still has a name.
func isLinked(f *os.File) bool {
	var stat unix.Stat_t
	return unix.Fstat(int(f.Fd()), &stat) == nil && stat.Nlink > 0
}

// RemoveStale removes the stale areas in the configured parent or in the default ones. It
// runs on all kernels, since the killed process may have run on an older one.
func RemoveStale(configured string) {
	parents := []string{configured}
	if configured == "" {
		parents = []string{systemParent, userParent()}
	}
	for _, parent := range parents {
		if checkOwner(parent) == nil {
			sweepParent(parent)
		}
	}
}

// sweepParent removes the stale areas of a parent.
func sweepParent(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, "*"+lockSuffix))
	for _, name := range locks {
		lock, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if tryLock(lock) == nil {
			(&Area{dir: strings.TrimSuffix(name, lockSuffix), lock: lock}).Release()
			continue
		}
		_ = lock.Close()
	}
}
