package table

import (
	"context"
	"path"

	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/util/ctxend"
)

// Queries answers questions about paths and sources by the cache, or else from the mount
// table.
type Queries struct {
	Paths *lookup.Resolver
	Cache *Cache
}

// References returns the other mount points at which the content at a path is visible.
func (q Queries) References(ctx context.Context, p string) ([]string, error) {
	s, err := findSpot(ctx, q.Paths, p)
	if err != nil {
		return nil, err
	}
	if refs, err := q.Cache.references(ctx, s); err == nil {
		return refs, nil
	}
	if ctx.Err() != nil {
		return nil, ctxend.Error(ctx)
	}
	resolved, in, table, err := q.readTable(ctx, p)
	if err != nil {
		return nil, err
	}
	return mountinfo.ViewEntries(table).ReferencesIn(in, resolved), nil
}

// Resolve returns the mount that a path is in, and the path in the mount.
func (q Queries) Resolve(ctx context.Context, p string) (in mountinfo.Entry, inside string, err error) {
	s, err := findSpot(ctx, q.Paths, p)
	if err != nil {
		return mountinfo.Entry{}, "", err
	}
	resolved := s.path
	in, err = q.Cache.entry(ctx, s.unique)
	switch {
	case err != nil && ctx.Err() != nil:
		err = ctxend.Error(ctx)
	case err != nil:
		resolved, in, err = q.readEntry(ctx, p)
	}
	if err != nil {
		return mountinfo.Entry{}, "", err
	}
	rest, ok := mountinfo.CutDir(in.Mountpoint, resolved)
	if !ok {
		return mountinfo.Entry{}, "", errUnreachable(resolved)
	}
	return in, path.Join("/", rest), nil
}

// MountsFrom returns the mounts from a source.
func (q Queries) MountsFrom(ctx context.Context, text string) ([]mountinfo.Entry, error) {
	s, err := findSource(ctx, q.Paths, text)
	if err != nil {
		return nil, err
	}
	if entries, err := q.Cache.entriesFrom(ctx, s); err == nil {
		return entries, nil
	}
	if ctx.Err() != nil {
		return nil, ctxend.Error(ctx)
	}
	table, err := mountinfo.Read(ctx)
	if err != nil {
		return nil, err
	}
	return s.selectEntries(ctx, table)
}

// readTable resolves a path, reads the mount table, and returns the position of the mount that
// the path is in.
func (q Queries) readTable(ctx context.Context, p string) (resolved string, in int, table []mountinfo.Entry, err error) {
	s, err := findSpot(ctx, q.Paths, p)
	if err != nil {
		return "", 0, nil, err
	}
	if table, err = mountinfo.Read(ctx); err != nil {
		return "", 0, nil, err
	}
	in, err = mountinfo.FindMount(table, s.mount)
	return s.path, in, table, err
}

// readEntry is readTable for the entry alone.
func (q Queries) readEntry(ctx context.Context, p string) (resolved string, _ mountinfo.Entry, err error) {
	resolved, in, table, err := q.readTable(ctx, p)
	if err != nil {
		return "", mountinfo.Entry{}, err
	}
	return resolved, table[in], nil
}
