package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/util/ownership"
	"golang.org/x/sys/unix"
)

// measureOwnership compares the time that it takes to give a tree to a group, and
// prints it. The other side walks, and changes each owner and mode by path.
func measureOwnership(ctx context.Context, dir string) error {
	const rounds, directories, files = 5, 100, 1000
	if err := os.Lchown(dir, -1, 1); err != nil {
		fmt.Fprintf(os.Stderr, "bench: to measure changes of ownership takes root: %v\n", err)
		return nil
	}
	tree := filepath.Join(dir, "tree")
	if err := plant(tree, directories, files); err != nil {
		return err
	}
	o := owners{ctx: ctx, tree: tree}
	fmt.Printf("| ownership of %d files on %s | ours, ms | by path, ms | ratio |\n", directories*files, kindOfDisk(dir))
	fmt.Println("|---|--:|--:|--:|")
	if err := o.compare("all must change", rounds, o.next); err != nil {
		return err
	}
	if err := o.compare("nothing must", rounds, func() {}); err != nil {
		return err
	}
	o.policy = ownership.OnRootMismatch
	if err := o.compare("OnRootMismatch", rounds, func() {}); err != nil {
		return err
	}
	return os.RemoveAll(tree)
}

// owners gives a tree to one group after the other.
type owners struct {
	ctx    context.Context
	tree   string
	group  int
	policy ownership.Policy
}

func (o *owners) next() { o.group++ }

// compare prints the medians of both sides. The disk is quiet before each.
func (o *owners) compare(name string, rounds int, before func()) error {
	var ours, theirs []float64
	for _, work := range []func() error{o.ours, o.byPath} { // to begin with
		if err := work(); err != nil {
			return err
		}
	}
	for range rounds {
		for _, side := range []struct {
			work  func() error
			times *[]float64
		}{{o.ours, &ours}, {o.byPath, &theirs}} {
			before()
			unix.Sync()
			begin := time.Now()
			if err := side.work(); err != nil {
				return err
			}
			*side.times = append(*side.times, float64(time.Since(begin).Microseconds())/1000)
		}
	}
	a, b := median(ours), median(theirs)
	fmt.Printf("| %s | %.2f | %.0f | %.1f× |\n", name, a, b, b/a)
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
