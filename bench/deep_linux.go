package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/volumekit/volumekit/util/ownership"
	"golang.org/x/sys/unix"
)

// measureDeep changes the ownership of nested directories, and removes them. Figures are per
// level. The peers are those of flat trees: a path of the peer's may be too long for the
// kernel. The floor descends, and to remove ascends again.
func measureDeep(b *bench) error {
	for _, levels := range []int{1000, 4000, 16000} {
		d := &nestedTree{b: b, dir: filepath.Join(b.dir, strconv.Itoa(levels)), levels: levels}
		if os.Geteuid() == 0 && os.Lchown(b.dir, -1, 1) == nil {
			if err := d.ownership(); err != nil {
				return err
			}
		}
		if err := d.removal(); err != nil {
			return err
		}
	}
	return nil
}

// A nestedTree has a number of directories, each in the one before.
type nestedTree struct {
	b      *bench
	dir    string
	levels int
	n      int // the number of the last tree
	group  int
}

func (w *nestedTree) ownership() error {
	if err := w.create(); err != nil {
		return err
	}
	changing := func(work func() error) side {
		return side{per: w.levels, up: work, seen: w.lowestGroup, prepare: func() error {
			w.group++
			return nil
		}}
	}
	return w.b.measure(trial{
		work:   fmt.Sprintf("ownership on %s, per level, N levels", kindOfDisk(w.b.dir)),
		size:   w.levels,
		rounds: 5,
		ours: changing(func() error {
			group := int64(w.group)
			_, err := ownership.Apply(w.b.ctx, w.top(), ownership.Options{Group: &group})
			return err
		}),
		peer: changing(func() error {
			return filepath.Walk(w.top(), func(name string, info fs.FileInfo, err error) error {
				if err == nil {
					err = os.Lchown(name, -1, w.group)
				}
				if err == nil {
					err = os.Chmod(name, info.Mode()|0o770|fs.ModeSetgid)
				}
				return err
			})
		}),
		floor: changing(func() error {
			_, err := w.descend(func(fd int) error {
				if err := rawStat(fd, "d"); err != nil {
					return err
				}
				return unix.Fchownat(fd, "d", -1, w.group, unix.AT_SYMLINK_NOFOLLOW)
			})
			return err
		}),
	})
}

func (w *nestedTree) removal() error {
	removing := func(work func() error) side {
		return side{per: w.levels, prepare: w.create, up: work, seen: func() (string, error) { return entriesIn(w.top()) }}
	}
	return w.b.measure(trial{
		work:   fmt.Sprintf("removal on %s, per level, N levels", kindOfDisk(w.b.dir)),
		size:   w.levels,
		rounds: 5,
		ours:   removing(func() error { return empty(w.b.ctx, w.top()) }),
		peer:   removing(func() error { return os.RemoveAll(w.top()) }),
		floor:  removing(w.rawRemove),
	})
}

func (w *nestedTree) top() string { return filepath.Join(w.dir, strconv.Itoa(w.n)) }

// create creates another tree.
func (w *nestedTree) create() error {
	w.n++
	if err := makeAll(w.top()); err != nil {
		return err
	}
	_, err := w.descend(func(fd int) error { return unix.Mkdirat(fd, "d", 0o755) })
	return err
}

const openDir = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// descend calls work in each directory before it opens the next, and returns the group of the
// lowest.
func (w *nestedTree) descend(work func(fd int) error) (group uint32, err error) {
	fd, err := unix.Open(w.top(), openDir, 0)
	if err != nil {
		return 0, err
	}
	for range w.levels {
		err := work(fd)
		next := -1
		if err == nil {
			next, err = unix.Openat(fd, "d", openDir, 0)
		}
		_ = unix.Close(fd)
		if err != nil {
			return 0, err
		}
		fd = next
	}
	var stat unix.Stat_t
	err = unix.Fstat(fd, &stat)
	_ = unix.Close(fd)
	return stat.Gid, err
}

// lowestGroup reports whether the lowest directory belongs to the group.
func (w *nestedTree) lowestGroup() (string, error) {
	group, err := w.descend(func(int) error { return nil })
	return fmt.Sprintf("the group's: %v", int(group) == w.group), err
}

func (w *nestedTree) rawRemove() error {
	fd, err := unix.Open(w.top(), openDir, 0)
	for range w.levels {
		fd, err = step(fd, "d", err)
	}
	for range w.levels {
		if fd, err = step(fd, "..", err); err == nil {
			err = unix.Unlinkat(fd, "d", unix.AT_REMOVEDIR)
		}
	}
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// step opens another directory and closes fd, unless failed is an error.
func step(fd int, name string, failed error) (next int, err error) {
	if failed != nil {
		return -1, failed
	}
	next, err = unix.Openat(fd, name, openDir, 0)
	_ = unix.Close(fd)
	return next, err
}
