// Package fsusage tells how full a file system is, without waiting for ever for
// one whose server is gone.
package fsusage

import (
	"context"
	"errors"
	"fmt"
)

// Usage is what a file system holds and has room for. Nothing is negative; what is more
// than an int64 holds is the largest one. What the file system does not know is 0: if
// Capacity or Inodes is, so is what goes with it.
type Usage struct {
	Capacity, Used, Available      int64 // bytes; Available is for ordinary users
	Inodes, InodesUsed, InodesFree int64
}

// Stat asks the file system at path, statfs(2). It returns when ctx ends, with
// ctx's cause. The system call may then still wait for its server: as long as it
// does, further calls for the same path wait for that one, so that there is never
// more than one for each mount; but not if something else is mounted at path by
// then (Linux 5.12).
func Stat(ctx context.Context, path string) (Usage, error) {
	if err := context.Cause(ctx); err != nil {
		return Usage{}, err
	}
	usage, err := usages.ask(ctx, place{path: path, mount: mountAt(path)}, statfs)
	if errors.Is(err, errNoAnswer) {
		err = fmt.Errorf("statfs %s does not return: %w", path, context.Cause(ctx))
	}
	return usage, err
}

var usages questions[Usage]
