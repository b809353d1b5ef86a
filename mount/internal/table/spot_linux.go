package table

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
)

// A spot is a resolved path.
type spot struct {
	mount  uint64 // mount ID of the mount that contains the path
	unique uint64 // its unique mount ID; 0: unknown
	inode  uint64 // 0, with unique: no lookup enters the mount at path
	path   string // without symbolic links
}

// findSpot resolves the links on the way to p, but not a link at p itself.
func findSpot(ctx context.Context, paths *lookup.Resolver, p string) (spot, error) {
	l := paths.FollowingLinks()
	parent, name, err := l.OpenParent(ctx, p)
	if err != nil {
		return spot{}, err
	}
	defer kernel.Close(parent)
	fd, err := l.OpenChild(ctx, parent, name)
	var stale *lookup.StaleError
	if errors.As(err, &stale) {
		return spot{mount: uint64(stale.Mount.ID), path: stale.Mount.Mountpoint}, nil
	}
	if err != nil {
		return spot{}, err
	}
	id, err := kernel.Identify(fd)
	unique, _ := kernel.UniqueMountID(fd) // 0 before Linux 6.8
	kernel.Close(fd)
	if err != nil {
		return spot{}, err
	}
	dir, err := kernel.PathOf(parent)
	if err != nil {
		return spot{}, err
	}
	if !path.IsAbs(dir) {
		return spot{}, errUnreachable(dir)
	}
	return spot{mount: id.Mount, unique: unique, inode: id.Inode, path: path.Join(dir, name)}, nil
}

// errUnreachable says that no path from the root of the process leads to a directory.
func errUnreachable(p string) error {
	return fmt.Errorf("%q is not reachable from the root: %w", p, fs.ErrNotExist)
}
