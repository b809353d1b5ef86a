package table

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/util/ctxend"
)

// references returns the other mount points at which the content of a spot is visible, sorted.
// If reading the mount table is faster, the error wraps errors.ErrUnsupported.
func (c *Cache) references(ctx context.Context, s spot) ([]string, error) {
	r := borrowReader()
	defer r.Return()
	content, err := r.readContent(ctx, s.unique, s.path)
	if err != nil {
		return nil, err
	}
	candidates, err := c.findShowing(ctx, content.Device, s.inode)
	if err != nil {
		return nil, err
	}
	var refs []string
	for _, id := range candidates {
		if id == s.unique { // shows the content at the spot alone
			continue
		}
		point, err := r.readReference(ctx, id, content.Root, s.path)
		if err != nil {
			return nil, err
		}
		if point != "" {
			refs = append(refs, point)
		}
	}
	slices.Sort(refs)
	return slices.Compact(refs), nil
}

// From manyCandidates mounts on, reading the mount table can be faster than reading the
// candidates one by one. In the time of one candidate linesPerCandidate lines are read;
// measured on Linux 6.18: 10 to 30.
const (
	manyCandidates    = 256
	linesPerCandidate = 10
)

var errManyCandidates = fmt.Errorf("many mounts may show the content: %w", errors.ErrUnsupported)

// findShowing returns the mounts that may show an inode of a device. It looks up the root of
// each mount of the device once.
func (c *Cache) findShowing(ctx context.Context, d kernel.Device, inode uint64) ([]uint64, error) {
	unlock, err := c.lockFresh(ctx, 0, nil)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := c.findRoots(ctx, d); err != nil {
		return nil, err
	}
	found := c.index.mountsShowing(d, inode)
	if len(found) > manyCandidates && len(found)*linesPerCandidate > len(c.index.mounts) {
		return nil, errManyCandidates
	}
	return found, nil
}

// findRoots looks up the roots of the mounts of a device that were not tried yet. If ctx ends,
// the next call continues with the rest.
func (c *Cache) findRoots(ctx context.Context, d kernel.Device) error {
	tried := 0
	for id := range c.index.rootless[d] {
		if c.index.mounts[id].rootTried {
			continue
		}
		if tried++; tried%256 == 0 && ctx.Err() != nil {
			return ctxend.Error(ctx)
		}
		c.index.setRoot(id, c.rootInode(id))
	}
	return nil
}
