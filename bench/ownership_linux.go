package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/volumekit/volumekit/util/ownership"
	"golang.org/x/sys/unix"
)

// A fileTree is a tree of directories with many files each.
type fileTree struct {
	root               string
	directories, files int
}

// measureOwnership gives a tree to a group. The peer walks, and changes each owner and mode by
// path, as volume plugins do. The floor queries and changes files of known names from their
// directories, with two workers.
func measureOwnership(b *bench) error {
	if err := os.Lchown(b.dir, -1, 1); err != nil {
		fmt.Fprintf(os.Stderr, "bench: to measure changes of ownership takes root: %v\n", err)
		return nil
	}
	// The path of a kubelet's volume, as the cost of a change by path grows with its length.
	o := &owners{b: b, fileTree: fileTree{filepath.Join(b.dir, "pods/7cbfe5f6-1f25-4a35-9f2d-6ea1b6d9c0c1/volumes/kubernetes.io~local-volume/pv"), 100, 1000}}
	if err := o.createFiles(); err != nil {
		return err
	}
	if err := o.byPath(); err != nil {
		return err
	}
	for _, work := range []struct {
		name   string
		before func() error
		raw    func(dir int, name string) error
	}{
		{"groups and modes change", o.fresh, o.rawChangeBoth},
		{"groups change", o.next, o.rawChange},
		{"nothing changes", func() error { return nil }, rawStat},
	} {
		err := b.measure(trial{
			work:  fmt.Sprintf("ownership on %s, %s, N files", kindOfDisk(b.dir), work.name),
			size:  o.directories * o.files,
			ours:  o.side(work.before, o.ours),
			peer:  o.side(work.before, o.byPath),
			floor: o.side(work.before, func() error { return o.eachFile(work.raw) }),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// owners gives a tree to one group after another.
type owners struct {
	b *bench
	fileTree
	group int
}

// side returns a side that begins with an idle disk.
func (o *owners) side(before, work func() error) side {
	return side{
		prepare: func() error {
			err := before()
			runtime.GC()
			unix.Sync()
			return err
		},
		up:   work,
		seen: o.seen,
	}
}

func (o *owners) next() error {
	o.group++
	return nil
}

// fresh resets the modes of the tree, and selects the next group.
func (o *owners) fresh() error {
	o.group++
	return filepath.Walk(o.root, func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(name, info.Mode()&^(0o070|fs.ModeSetgid))
	})
}

// seen counts the files of the group, by mode. It omits directories, as the floor does.
func (o *owners) seen() (string, error) {
	modes := map[fs.FileMode]int{}
	err := filepath.Walk(o.root, func(_ string, info fs.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Gid) == o.group {
			modes[info.Mode()]++
		}
		return nil
	})
	return fmt.Sprint(modes), err
}

func (o *owners) ours() error {
	group := int64(o.group)
	_, err := ownership.Apply(o.b.ctx, o.root, ownership.Options{Group: &group})
	return err
}

func (o *owners) byPath() error {
	return filepath.Walk(o.root, func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(name, -1, o.group); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return err
		}
		mode := info.Mode() | 0o660
		if info.IsDir() {
			mode |= 0o110 | fs.ModeSetgid
		}
		return os.Chmod(name, mode)
	})
}

func rawStat(dir int, name string) error {
	var x unix.Statx_t
	return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &x)
}

func (o *owners) rawChange(dir int, name string) error {
	if err := rawStat(dir, name); err != nil {
		return err
	}
	return unix.Fchownat(dir, name, -1, o.group, unix.AT_SYMLINK_NOFOLLOW)
}

func (o *owners) rawChangeBoth(dir int, name string) error {
	if err := o.rawChange(dir, name); err != nil {
		return err
	}
	return unix.Fchmodat(dir, name, 0o664, 0)
}

// createFiles creates missing files.
func (f fileTree) createFiles() error {
	for d := range f.directories {
		dir := filepath.Join(f.root, strconv.Itoa(d))
		if err := makeAll(dir); err != nil {
			return err
		}
		for i := range f.files {
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachFile calls work for all files, from two goroutines.
func (f fileTree) eachFile(work func(dir int, name string) error) error {
	const workers = 2
	done := make(chan error, workers)
	for worker := range workers {
		go func() {
			var err error
			for d := worker; d < f.directories && err == nil; d += workers {
				err = f.eachFileIn(strconv.Itoa(d), work)
			}
			done <- err
		}()
	}
	return errors.Join(<-done, <-done)
}

func (f fileTree) eachFileIn(name string, work func(dir int, name string) error) error {
	dir, err := unix.Open(filepath.Join(f.root, name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	for i := range f.files {
		if err := work(dir, strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}
