package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/volumekit/volumekit/util/atomicdir"
	"golang.org/x/sys/unix"
)

// measureAtomicdir compares the time that it takes to bring a set of 100 files of 1 KiB
// up to date, and prints it. The other side writes the same layout by paths: it compares
// nothing with what is there, and is not safe from anybody in the directory. On a disk it
// syncs each file and the directory, as ours does.
func measureAtomicdir(ctx context.Context, dir string) error {
	memory, disk := filepath.Join(dir, "memory"), filepath.Join(dir, "disk")
	if err := errors.Join(os.Mkdir(memory, 0o755), os.Mkdir(disk, 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", memory, "tmpfs", 0, ""); err != nil {
		return err
	}
	fmt.Println("| a set of 100 files | ours, ms | by path, ms | ratio |")
	fmt.Println("|---|--:|--:|--:|")
	for _, in := range []sets{
		{name: "tmpfs", dir: memory, rounds: 50},
		{name: kindOfDisk(disk), dir: disk, rounds: 5, synced: true},
	} {
		if err := in.compareAll(ctx); err != nil {
			return err
		}
	}
	return unix.Unmount(memory, 0)
}

// sets are written to a directory, one after the other.
type sets struct {
	name, dir string
	rounds    int
	synced    bool
	n         int
}

func (s *sets) compareAll(ctx context.Context) error {
	for _, change := range []struct {
		name  string
		files int
	}{{"all change", 100}, {"one changes", 1}, {"none changes", 0}} {
		var ours, theirs []float64
		for range s.rounds {
			s.n++
			files := s.files(change.files)
			for _, side := range []struct {
				write func(context.Context, map[string]atomicdir.File) error
				times *[]float64
			}{{s.ours, &ours}, {s.byPath, &theirs}} {
				begin := time.Now()
				if err := side.write(ctx, files); err != nil {
					return err
				}
				*side.times = append(*side.times, float64(time.Since(begin).Microseconds())/1000)
			}
		}
		a, b := median(ours), median(theirs)
		fmt.Printf("| %s, %s | %.2f | %.2f | %.1f× |\n", s.name, change.name, a, b, b/a)
	}
	return nil
}

// files are 100, of which some differ from those before.
func (s *sets) files(change int) map[string]atomicdir.File {
	files := map[string]atomicdir.File{}
	for i := range 100 {
		data := make([]byte, 1024)
		if i < change {
			copy(data, strconv.Itoa(s.n))
		}
		files["file-"+strconv.Itoa(i)] = atomicdir.File{Data: data}
	}
	return files
}

func (s *sets) ours(ctx context.Context, files map[string]atomicdir.File) error {
	dir := filepath.Join(s.dir, "ours")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	_, err := atomicdir.Write(ctx, dir, files, atomicdir.Options{})
	return err
}

func (s *sets) byPath(_ context.Context, files map[string]atomicdir.File) error {
	dir := filepath.Join(s.dir, "by-path")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	set, err := os.MkdirTemp(dir, "..set.")
	if err != nil {
		return err
	}
	for name, f := range files {
		if err := s.writeFile(filepath.Join(set, name), f.Data); err != nil {
			return err
		}
	}
	link := filepath.Join(dir, "..data")
	old, _ := os.Readlink(link)
	if err := errors.Join(s.sync(set), os.Symlink(filepath.Base(set), link+"_tmp"), os.Rename(link+"_tmp", link)); err != nil {
		return err
	}
	for name := range files {
		if err := os.Symlink("..data/"+name, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if err := s.sync(dir); err != nil || old == "" {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

func (s *sets) writeFile(name string, data []byte) error {
	return errors.Join(os.WriteFile(name, data, 0o644), os.Chmod(name, 0o644), s.sync(name))
}

func (s *sets) sync(name string) error {
	if !s.synced {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
