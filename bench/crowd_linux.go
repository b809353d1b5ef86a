package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/volumekit/volumekit/mount"
	"golang.org/x/sys/unix"
	peer "k8s.io/mount-utils"
)

// A node has a file system with a local disk, one with the directories of pods, and a crowd:
// many mounts of one directory, in the pods' file system or in the disk's. A bind mount
// takes the kernel longer the more mounts its source's file system has.
type node struct {
	disk, pods string
	crowd      string // has the mounts
	mounts     int
	ours       *mount.Mounter
	peer       peer.Interface
}

// newNode returns a node with its crowd in the file system of the pods.
func newNode(dir string) (*node, error) { return newNodeWith(dir, "pods") }

// newNodeWith returns a node with its crowd in one of the two file systems.
func newNodeWith(dir, crowdIn string) (*node, error) {
	return newNodeOn(dir, crowdIn, func(at string) error { return unix.Mount("bench", at, "tmpfs", 0, "") })
}

// newDiskNode returns a node on the file system of dir.
func newDiskNode(dir string) (*node, error) {
	return newNodeOn(dir, "pods", func(at string) error { return unix.Mount(at, at, "", unix.MS_BIND, "") })
}

func newNodeOn(dir, crowdIn string, mountAt func(string) error) (*node, error) {
	n := &node{
		disk: filepath.Join(dir, "disk"), pods: filepath.Join(dir, "pods"),
		ours: mount.New(mount.Config{}), peer: peer.NewWithoutSystemd(""),
	}
	n.crowd = filepath.Join(dir, crowdIn, "crowd")
	for _, fs := range []string{n.disk, n.pods} {
		if err := os.MkdirAll(fs, 0o755); err != nil {
			return nil, err
		}
		if err := mountAt(fs); err != nil {
			return nil, err
		}
	}
	return n, makeAll(n.source(), n.target())
}

func (n *node) source() string { return filepath.Join(n.disk, "source") }
func (n *node) target() string { return filepath.Join(n.pods, "target") }

// crowdSource returns the directory that all mounts of the crowd show.
func (n *node) crowdSource() string { return filepath.Join(n.crowd, "source") }

// grow adds mounts up to a number.
func (n *node) grow(mounts int) error {
	if err := makeAll(n.crowdSource()); err != nil {
		return err
	}
	for ; n.mounts < mounts; n.mounts++ {
		target := filepath.Join(n.crowd, strconv.Itoa(n.mounts))
		if err := makeAll(target); err != nil {
			return err
		}
		if err := unix.Mount(n.crowdSource(), target, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// close detaches both file systems, with the crowd.
func (n *node) close() error {
	return errors.Join(unix.Unmount(n.pods, unix.MNT_DETACH), unix.Unmount(n.disk, unix.MNT_DETACH), n.ours.Close())
}

// settleTime is the time for the kernel's deferred work of many mounts and unmounts.
const settleTime = 300 * time.Millisecond

// measureInCrowds measures trials in larger and larger crowds.
func (b *bench) measureInCrowds(n *node, sizes []int, trials ...trial) error {
	for _, size := range sizes {
		if err := n.grow(size); err != nil {
			return err
		}
		time.Sleep(settleTime)
		for _, t := range trials {
			t.size = size
			if err := b.measure(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// smallestAndLargest returns the sizes of crowds that show most: the smallest and the largest.
func smallestAndLargest(sizes []int) []int {
	if len(sizes) < 3 {
		return sizes
	}
	return []int{sizes[0], sizes[len(sizes)-1]}
}

func makeAll(dirs ...string) error {
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// mountState describes the directory at a path: its identity, and how it is mounted.
func mountState(path string) func() (string, error) {
	return func() (string, error) {
		var x unix.Statx_t
		var fs unix.Statfs_t
		err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &x)
		if errors.Is(err, unix.ENOENT) {
			return "nothing", nil
		}
		if err != nil {
			return "", err
		}
		if err := unix.Statfs(path, &fs); err != nil {
			return "", err
		}
		mounted := x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
		if !mounted {
			return "not mounted", nil
		}
		return fmt.Sprintf("device %d:%d, inode %d, read-only %v", x.Dev_major, x.Dev_minor, x.Ino, fs.Flags&unix.ST_RDONLY != 0), nil
	}
}
