// Package fsusage measures file systems, block devices and directories, and returns by the
// end of the context even if a file system does not answer.
//
// On Windows file systems alone are measured; on other systems than Linux and Windows nothing is:
// the error wraps errors.ErrUnsupported.
package fsusage

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/internal/brief"
)

// Usage is the size and the use of a file system. No value is negative; a value that does
// not fit is the maximum of int64. Values that the file system does not report are 0: if
// Capacity or Inodes is 0, so are the values derived from it.
type Usage struct {
	Capacity, Used, Available      int64 // bytes; Available to ordinary users
	Inodes, InodesUsed, InodesFree int64
}

// Stat returns the usage of the file system at path: statfs(2), or GetDiskFreeSpaceEx on
// Windows, which knows no inodes. It returns when ctx ends, with ctx's cause. The system call may then still wait for its server: until it returns,
// further calls for the same path wait for it, so that at most one call for each mount is
// stuck. A new mount at path gets a call of its own (Linux 5.12).
func Stat(ctx context.Context, path string) (_ Usage, err error) {
	defer brief.Shorten(&err)
	if err := context.Cause(ctx); err != nil {
		return Usage{}, err
	}
	usage, err := usages.wait(ctx, place{path: path, mount: mountAt(path)}, statfs)
	if errors.Is(err, errNoAnswer) {
		err = fmt.Errorf("statfs %s does not return: %w", path, context.Cause(ctx))
	}
	return usage, err
}

// Info returns the values of [Stat] in the order of Info of
// k8s.io/kubernetes/pkg/volume/util/fs: the bytes available to ordinary users, the size of
// the file system, the bytes in use, and the inodes. Values that the file system does not
// report are 0.
func Info(ctx context.Context, path string) (available, capacity, usage, inodes, inodesFree, inodesUsed int64, err error) {
	u, err := Stat(ctx, path)
	return u.Available, u.Capacity, u.Used, u.Inodes, u.InodesFree, u.InodesUsed, err
}

var usages queries[Usage]
