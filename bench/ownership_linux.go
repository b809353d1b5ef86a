package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/util/ownership"
	"golang.org/x/sys/unix"
)

// measureOwnership compares the time that it takes to give a tree to a group, and
// prints it. The other side walks, and changes each owner and mode by path. Processors'
// time is beside it, since a machine that has other things to do tells little by the
// clock, and so is what the system calls alone take that a change cannot do without.
func measureOwnership(ctx context.Context, dir string) error {
	const rounds, directories, files = 5, 100, 1000
	if err := os.Lchown(dir, -1, 1); err != nil {
		fmt.Fprintf(os.Stderr, "bench: to measure changes of ownership takes root: %v\n", err)
		return nil
	}
	// Where a kubelet has a volume: by path is as long as the path is.
	tree := filepath.Join(dir, "pods/7cbfe5f6-1f25-4a35-9f2d-6ea1b6d9c0c1/volumes/kubernetes.io~local-volume/pv")
	if err := plant(tree, directories, files); err != nil {
		return err
	}
	o := owners{ctx: ctx, tree: tree}
	fmt.Printf("| ownership of %d files on %s | ours, ms | by path, ms | ratio | ours, ms of processors | by path | ratio |\n", directories*files, kindOfDisk(dir))
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|")
	if err := o.compare("all groups must change", rounds, o.next); err != nil {
		return err
	}
	if err := o.compare("all groups and modes must change", rounds, o.fresh); err != nil {
		return err
	}
	if err := o.floor(directories, files); err != nil {
		return err
	}
	if err := o.compare("nothing must", rounds, nothing); err != nil {
		return err
	}
	o.policy = ownership.OnRootMismatch
	if err := o.compare("OnRootMismatch", rounds, nothing); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, "pods"))
}

// owners gives a tree to one group after the other.
type owners struct {
	ctx    context.Context
	tree   string
	group  int
	policy ownership.Policy
}

func (o *owners) next() error {
	o.group++
	return nil
}

func nothing() error { return nil }

// fresh makes the tree one that no group has had yet.
func (o *owners) fresh() error {
	o.group++
	return filepath.Walk(o.tree, func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(name, info.Mode()&^(0o070|fs.ModeSetgid))
	})
}

// compare prints the medians of both sides. The disk is quiet before each.
func (o *owners) compare(name string, rounds int, before func() error) error {
	sides := []struct {
		work             func() error
		times, processor []float64
	}{{work: o.ours}, {work: o.byPath}}
	for _, side := range sides { // to begin with
		if err := side.work(); err != nil {
			return err
		}
	}
	for range rounds {
		for i := range sides {
			side := &sides[i]
			if err := before(); err != nil {
				return err
			}
			runtime.GC()
			unix.Sync()
			begin, used := time.Now(), processorTime()
			if err := side.work(); err != nil {
				return err
			}
			side.times = append(side.times, float64(time.Since(begin).Microseconds())/1000)
			side.processor = append(side.processor, processorTime()-used)
		}
	}
	a, b := median(sides[0].times), median(sides[1].times)
	c, d := median(sides[0].processor), median(sides[1].processor)
	fmt.Printf("| %s | %.2f | %.0f | %.1f× | %.2f | %.0f | %.1f× |\n", name, a, b, b/a, c, d, d/c)
	return nil
}

// floor prints what the kernel takes for a look at each file and a new group, with
// nothing around it: who looks before he changes is not faster.
func (o *owners) floor(directories, files int) error {
	o.group++
	unix.Sync()
	begin, used := time.Now(), processorTime()
	const workers = 2
	done := make(chan error, workers)
	for worker := range workers {
		go func() {
			var err error
			for d := worker; d < directories && err == nil; d += workers {
				err = o.changeEach(filepath.Join(o.tree, strconv.Itoa(d)), files)
			}
			done <- err
		}()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		return err
	}
	fmt.Printf("| statx and fchownat alone | %.2f | | | %.2f | | |\n", float64(time.Since(begin).Microseconds())/1000, processorTime()-used)
	return nil
}

// changeEach gives the files that plant has made in a directory to the group.
func (o *owners) changeEach(name string, files int) error {
	dir, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	var x unix.Statx_t
	for i := range files {
		file := strconv.Itoa(i)
		if err := unix.Statx(dir, file, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &x); err != nil {
			return err
		}
		if err := unix.Fchownat(dir, file, -1, o.group, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	return nil
}

func (o *owners) ours() error {
	group := int64(o.group)
	_, err := ownership.Apply(o.ctx, o.tree, ownership.Options{Group: &group, Policy: o.policy})
	return err
}

// byPath is what volume plugins do.
func (o *owners) byPath() error {
	return filepath.Walk(o.tree, func(name string, info fs.FileInfo, err error) error {
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

// kindOfDisk names a file system.
func kindOfDisk(dir string) string {
	var fs syscall.Statfs_t
	names := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.TMPFS_MAGIC: "tmpfs", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay"}
	if err := syscall.Statfs(dir, &fs); err == nil && names[int64(fs.Type)] != "" {
		return names[int64(fs.Type)]
	}
	return "disk"
}
