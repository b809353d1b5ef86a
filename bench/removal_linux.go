package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/volumekit/volumekit/util/scrub"
	"golang.org/x/sys/unix"
)

// measureRemoval empties a tree. The peer is os.RemoveAll. The floor removes files of known
// names, with two workers.
func measureRemoval(b *bench) error {
	f := fileTree{filepath.Join(b.dir, "tree"), 20, 1000}
	removing := func(work func() error) side {
		return side{prepare: f.createFiles, up: work, seen: func() (string, error) { return entriesIn(f.root) }}
	}
	return b.measure(trial{
		work:   fmt.Sprintf("removal on %s, N files", kindOfDisk(b.dir)),
		size:   f.directories * f.files,
		rounds: 5,
		ours:   removing(func() error { return empty(b.ctx, f.root) }),
		peer:   removing(func() error { return os.RemoveAll(f.root) }),
		floor: removing(func() error {
			if err := f.eachFile(func(dir int, name string) error { return unix.Unlinkat(dir, name, 0) }); err != nil {
				return err
			}
			for d := range f.directories {
				if err := unix.Rmdir(filepath.Join(f.root, strconv.Itoa(d))); err != nil {
					return err
				}
			}
			return nil
		}),
	})
}

func empty(ctx context.Context, tree string) error {
	root, err := scrub.Open(ctx, tree)
	if err != nil {
		return err
	}
	_, err = root.Empty(ctx, scrub.Options{})
	return errors.Join(err, root.Close())
}

// entriesIn counts the entries of a directory, which may be missing.
func entriesIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return strconv.Itoa(len(entries)) + " entries", err
}
