package table

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"golang.org/x/sys/unix"
)

// entry returns the mount table's entry of a mount.
func (c *Cache) entry(ctx context.Context, id uint64) (mountinfo.Entry, error) {
	r := borrowReader()
	defer r.Return()
	if _, err := c.findSourced(ctx, func(*index) []uint64 { return nil }); err != nil {
		return mountinfo.Entry{}, err
	}
	entry, ok, err := r.readEntry(ctx, id)
	if err == nil && !ok {
		err = unix.ENOENT
	}
	return entry, err
}

// entriesFrom returns the entries of the mounts from a source, in ascending order of their
// unique mount IDs.
func (c *Cache) entriesFrom(ctx context.Context, s source) ([]mountinfo.Entry, error) {
	r := borrowReader()
	defer r.Return()
	candidates, err := c.findSourced(ctx, func(x *index) []uint64 { return x.mountsFrom(s) })
	if err != nil {
		return nil, err
	}
	var entries []mountinfo.Entry
	for _, id := range candidates {
		entry, ok, err := r.readEntry(ctx, id)
		if err == nil && ok {
			ok, err = s.matches(ctx, entry)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// findSourced is [Cache.findMounts] for answers that need all parts of an entry (Linux 6.13).
func (c *Cache) findSourced(ctx context.Context, choose func(*index) []uint64) ([]uint64, error) {
	sourced := false
	found, err := c.findMounts(ctx, func(x *index) []uint64 {
		sourced = x.sourced
		return choose(x)
	})
	if err == nil && !sourced {
		err = fmt.Errorf("sources of mounts: requires Linux 6.13: %w", errors.ErrUnsupported)
	}
	return found, err
}
