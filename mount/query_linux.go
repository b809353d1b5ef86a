package mount

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
)

// A spot is what a query's path leads to.
type spot struct {
	mount uint64 // the mount that it is in, or the root of, by its number in the table
	where string // without the symbolic links on the way
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
	closeFD(fd)
	if err != nil {
		return spot{}, err
	}
	dir, err := os.Readlink(procFD(parent))
	if err != nil {
		return spot{}, err
	}
	if !path.IsAbs(dir) {
		return spot{}, fmt.Errorf("%q is out of sight: %w", dir, fs.ErrNotExist)
	}
	return spot{mount: id.mount, where: path.Join(dir, name)}, nil
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
	if table, err = readTable(); err != nil {
		return s, in, nil, err
	}
	in, err = s.in(table)
	return s, in, table, err
}

func (m *Mounter) mountRefs(ctx context.Context, p string) ([]string, error) {
	s, in, table, err := m.findInTable(ctx, p)
	if err != nil {
		return nil, err
	}
	return newVisibility(table).refs(in, s.where), nil
}

func (m *Mounter) resolve(ctx context.Context, p string) (Place, error) {
	s, in, _, err := m.findInTable(ctx, p)
	if err != nil {
		return Place{}, err
	}
	rest, ok := below(in.Mountpoint, s.where)
	if !ok {
		return Place{}, fmt.Errorf("%q is out of sight: %w", s.where, fs.ErrNotExist)
	}
	return Place{Mount: in, Path: path.Join("/", rest)}, nil
}

func (m *Mounter) mountsFrom(_ context.Context, source string) ([]Info, error) {
	table, err := readTable()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(table, func(i Info) bool { return i.Source != source }), nil
}
