package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// inOwnMounts is mounttest.Command, but keeps root's user namespace, so that a disk can be
// mounted.
func inOwnMounts(name string, args ...string) *exec.Cmd {
	if os.Geteuid() != 0 {
		return mounttest.Command(name, args...)
	}
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return c
}

// onDisk mounts a new ext4 on the directory, from a file beside it. The loop device ends with
// the mount, which ends with the process. If that is not allowed the directory stays on its
// present file system.
func onDisk(ctx context.Context, dir string) error {
	image := dir + ".ext4"
	file, err := os.Create(image)
	if err != nil {
		return err
	}
	const size = 2 << 30 // a sparse file: little is ever written
	if err := errors.Join(file.Truncate(size), file.Close()); err != nil {
		return err
	}
	for _, command := range [][]string{
		// As on a disk of ordinary size, the journal is large, and the inode tables are
		// written before pods start.
		{"mkfs.ext4", "-q", "-F", "-N", "400000", "-J", "size=256", "-E", "lazy_itable_init=0", image},
		{"mount", "-o", "loop", "-t", "ext4", image, dir},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "bench: no file system of its own: %s: %v: %s\n", command[0], err, out)
			return ctx.Err()
		}
	}
	return nil
}

// kindOfDisk returns the name of a directory's file system.
func kindOfDisk(dir string) string {
	var fs syscall.Statfs_t
	names := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.TMPFS_MAGIC: "tmpfs", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay"}
	if err := syscall.Statfs(dir, &fs); err == nil && names[int64(fs.Type)] != "" {
		return names[int64(fs.Type)]
	}
	return "disk"
}
