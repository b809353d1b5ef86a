package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/loop"
)

// holders returns the nodes to which a disk is attached and which uses it, or "".
func (p places) holders(disk string) (attached, user string, err error) {
	attached, err = os.Readlink(filepath.Join(p.disks(), disk, "attached"))
	user, failed := os.Readlink(filepath.Join(p.disks(), disk, "used"))
	return attached, user, errors.Join(ignoreMissing(err), ignoreMissing(failed))
}

// imageSize returns the bytes of a disk.
func (p places) imageSize(disk string) (int64, error) {
	info, err := os.Stat(filepath.Join(p.disks(), disk, "image"))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// fileSystemSize returns the bytes of the file system at a path.
func fileSystemSize(path string) (int64, error) {
	var s unix.Statfs_t
	err := unix.Statfs(path, &s)
	return int64(s.Blocks) * s.Bsize, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// mountsBelow returns the mounts of a volume below a directory; of all volumes if name is empty.
func mountsBelow(ctx context.Context, dir, name string) (found []mount.Info, err error) {
	table, err := mount.New(mount.Config{}).List(ctx)
	for _, m := range table {
		if strings.HasPrefix(m.Mountpoint, dir+"/") && (name == "" || strings.Contains(m.Mountpoint+"/", "/"+name+"/")) {
			found = append(found, m)
		}
	}
	return found, err
}

// wronglyMounted says which disk is mounted on a node that does not hold it, for its pods or for one of them; or "". It
// reads the holders between two readings of the mount table. A mount that is in both readings existed in between: a test
// mounts a disk once at a path.
func (c *processCluster) wronglyMounted(ctx context.Context) (string, error) {
	before, err := c.mountedDisks(ctx)
	if err != nil {
		return "", err
	}
	wrong := map[diskMount]string{}
	for m := range before {
		attached, user, err := c.holders(m.disk)
		if err != nil || attached != m.node || user != m.node {
			wrong[m] = fmt.Sprintf("%s is mounted at %s of %s, attached to %q and used by %q%s", m.disk, m.path, m.node, attached, user, errorText(err))
		}
	}
	if len(wrong) == 0 {
		return "", nil
	}
	after, err := c.mountedDisks(ctx)
	if err != nil {
		return "", err
	}
	for m, text := range wrong {
		if after[m] {
			return text, nil
		}
	}
	return "", nil
}

// A diskMount is a mount of a disk on a node.
type diskMount struct{ node, disk, path string }

// mountedDisks returns the mounts of disks, which alone have the file system of their class: that of the driver at a path
// with the name of the disk, and those of pods.
func (c *processCluster) mountedDisks(ctx context.Context) (map[diskMount]bool, error) {
	all := map[diskMount]bool{}
	for _, node := range []string{nodeA, nodeB} {
		mounts, err := mountsBelow(ctx, c.root(node), "")
		if err != nil {
			return nil, err
		}
		for _, m := range mounts {
			if m.FSType == diskFSType {
				all[diskMount{node, filepath.Base(strings.TrimSuffix(m.Mountpoint, "/mount")), m.Mountpoint}] = true
			}
		}
	}
	return all, nil
}

// devices returns the loop devices of disks.
func (c *processCluster) devices(ctx context.Context) (found []loop.Device, err error) {
	all, err := loop.List(ctx)
	for _, d := range all {
		if strings.HasPrefix(d.Backing, c.disks()+"/") {
			found = append(found, d)
		}
	}
	return found, err
}

// leftDevices returns the paths of the loop devices, or "".
func (c *processCluster) leftDevices() (string, error) {
	devices, err := c.devices(c.Context())
	var all []string
	for _, d := range devices {
		all = append(all, d.Path)
	}
	return joinPaths("loop devices", all), err
}
