// Package unittest shows fakes in a unit test: cache.go is a program's own code, which mounts with this library, and
// cache_test.go tests it on a kernel in memory, which runs anywhere, fails when it is told to, and hangs.
package unittest

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
)

// A Cache shows an export of a server to the jobs of this machine.
type Cache struct {
	Mounter mount.Interface
	Export  string // such as "server:/cache"
}

// Attach mounts the cache at a directory, read-only, and makes the directory if it is missing. After an error everything is
// as it was: a job that has the cache already keeps it.
func (c Cache) Attach(ctx context.Context, dir string) error {
	errOfMkdir := os.Mkdir(dir, 0o755)
	if errOfMkdir != nil && !errors.Is(errOfMkdir, os.ErrExist) {
		return errOfMkdir
	}
	err := c.Mounter.Mount(ctx, mount.Request{Source: c.Export, Target: dir, FSType: "nfs4", Options: []string{"ro"}})
	if err == nil {
		return nil
	}
	if errOfMkdir == nil {
		_ = os.Remove(dir) // rmdir(2) refuses a mount point
	}
	return fmt.Errorf("attach the cache: %w", err)
}

// Detach unmounts the cache, and removes the directory. A job without the cache is no error.
func (c Cache) Detach(ctx context.Context, dir string) error {
	return util.UnmountMountPoint(ctx, c.Mounter, dir)
}
