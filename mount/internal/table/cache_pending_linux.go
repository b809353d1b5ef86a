package table

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/util/ctxend"
)

// readPending reads the pending mounts into the index. If ctx ends, the next call continues
// with the rest.
func (c *Cache) readPending(ctx context.Context) error {
	slices.Sort(c.pending) // a mount with two events is pending twice
	c.pending = slices.Compact(c.pending)
	points := map[uint64]string{}
	for i, id := range c.pending {
		if i%256 == 0 && ctx.Err() != nil {
			c.pending = slices.Clone(c.pending[i:])
			return ctxend.Error(ctx)
		}
		if err := c.readMount(id, points); err != nil {
			return err
		}
	}
	c.pending = c.pending[:0]
	return nil
}

// readMount reads one mount into the index. points holds the mount points of parents.
func (c *Cache) readMount(id uint64, points map[uint64]string) error {
	r, err := c.reader.Read(id, record.WantDevice|record.WantMount|record.WantPoint|record.WantType|record.WantSource)
	if errors.Is(err, fs.ErrNotExist) {
		c.index.remove(id)
		return nil
	}
	if err != nil {
		return err
	}
	c.index.sourced = c.index.sourced || r.Has(record.WantSource)
	m, point := mountOf(r), string(r.MountPoint())
	m.inside = c.pathInParent(m.parent, point, points) // overwrites r
	c.index.add(id, m)
	return nil
}

// mountOf returns a record as a mount of the index, without the place in its parent.
func mountOf(r record.Record) indexedMount {
	fsType := string(r.Bytes(record.WantType, r.TypeAt))
	return indexedMount{
		device: r.Device(),
		parent: r.Parent,
		source: string(r.Bytes(record.WantSource, r.SourceAt)),
		// NFS reports the mounted directory; btrfs one of its devices.
		anySource: mountinfo.IsNFS(fsType) || fsType == "btrfs",
	}
}

// pathInParent returns the place of a mount point in the parent. points holds the mount points
// of parents.
func (c *Cache) pathInParent(parent uint64, point string, points map[uint64]string) string {
	at, known := points[parent]
	if !known {
		if r, err := c.reader.Read(parent, record.WantPoint); err == nil {
			at = string(r.MountPoint())
		}
		points[parent] = at
	}
	rest, _ := mountinfo.CutDir(at, point)
	return "/" + rest
}
