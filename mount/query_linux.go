package mount

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/volumekit/volumekit/util/ctxend"
)

// A spot is what a query's path leads to.
type spot struct {
	mount  uint64 // the mount that it is in, or the root of, by its number in the table
	unique uint64 // the same, by an id that is never used again; 0: unknown
	where  string // without the symbolic links on the way
}

// find follows the links on the way to p, not the one that p may be.
func (m *Mounter) find(ctx context.Context, p string) (spot, error) {
	l := lookup{m: m, ctx: ctx, followLinks: true}
	parent, name, err := l.parent(p)
	if err != nil {
		return spot{}, err
	}
	defer closeFD(parent)
	fd, err := l.child(parent, name)
	if err != nil {
		return spot{}, err
	}
	id, err := identify(fd)
	unique, _ := uniqueMount(fd) // 0 before Linux 6.8
	closeFD(fd)
	if err != nil {
		return spot{}, err
	}
	dir, err := pathOf(parent)
	if err != nil {
		return spot{}, err
	}
	if !path.IsAbs(dir) {
		return spot{}, fmt.Errorf("%q is out of sight: %w", dir, fs.ErrNotExist)
	}
	return spot{mount: id.mount, unique: unique, where: path.Join(dir, name)}, nil
}

// in returns the line of the table for the mount that the spot is in.
func (s spot) in(table Table) (Info, error) {
	at := slices.IndexFunc(table, func(i Info) bool { return uint64(i.ID) == s.mount })
	if at < 0 {
		return Info{}, fmt.Errorf("mount %d is not in the table: %w", s.mount, fs.ErrNotExist)
	}
	return table[at], nil
}

func (m *Mounter) findInTable(ctx context.Context, p string) (s spot, in Info, table Table, err error) {
	if s, err = m.find(ctx, p); err != nil {
		return s, in, nil, err
	}
	if table, err = readTableIn(ctx); err != nil {
		return s, in, nil, err
	}
	in, err = s.in(table)
	return s, in, table, err
}

// mountRefs reads the table if the cache cannot answer, for whatever reason.
func (m *Mounter) mountRefs(ctx context.Context, p string) ([]string, error) {
	s, err := m.find(ctx, p)
	if err != nil {
		return nil, err
	}
	if refs, err := m.cache.refs(ctx, s.unique, s.where); err == nil {
		return refs, nil
	}
	if ctx.Err() != nil {
		return nil, ctxend.Error(ctx)
	}
	s, in, table, err := m.findInTable(ctx, p)
	if err != nil {
		return nil, err
	}
	return newVisibility(table).refs(in, s.where), nil
}

func (m *Mounter) resolve(ctx context.Context, p string) (Place, error) {
	s, err := m.find(ctx, p)
	if err != nil {
		return Place{}, err
	}
	in, err := m.cache.info(ctx, s.unique)
	switch {
	case err != nil && ctx.Err() != nil:
		err = ctxend.Error(ctx)
	case err != nil:
		s, in, _, err = m.findInTable(ctx, p)
	}
	if err != nil {
		return Place{}, err
	}
	rest, ok := below(in.Mountpoint, s.where)
	if !ok {
		return Place{}, fmt.Errorf("%q is out of sight: %w", s.where, fs.ErrNotExist)
	}
	return Place{Mount: in, Path: path.Join("/", rest)}, nil
}

func (m *Mounter) mountsFrom(ctx context.Context, source string) ([]Info, error) {
	o, err := m.origin(ctx, source)
	if err != nil {
		return nil, err
	}
	if infos, err := m.cache.from(ctx, o); err == nil {
		return infos, nil
	}
	if ctx.Err() != nil {
		return nil, ctxend.Error(ctx)
	}
	table, err := readTableIn(ctx)
	if err != nil {
		return nil, err
	}
	return o.only(table)
}
