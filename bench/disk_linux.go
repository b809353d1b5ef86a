package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// inOwnMounts is mounttest.Command for those who are root: with the machine's own users,
// so that a disk can be mounted.
func inOwnMounts(name string, args ...string) *exec.Cmd {
	if os.Geteuid() != 0 {
		return mounttest.Command(name, args...)
	}
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return c
}

// onDisk mounts a new ext4 on the directory, from a file beside it. The loop device goes
// with the mount, which goes with the process at the latest. Also along with an error it
// returns what takes back what it has done.
func onDisk(ctx context.Context, dir string) (end func() error, err error) {
	image := dir + ".ext4"
	end = func() error { return nil }
	if err := mounttest.Privatize(); err != nil {
		return end, err
	}
	file, err := os.Create(image)
	if err != nil {
		return end, err
	}
	end = func() error { return os.Remove(image) }
	const size = 2 << 30 // of which little is ever written
	if err := errors.Join(file.Truncate(size), file.Close()); err != nil {
		return end, err
	}
	for _, command := range [][]string{
		// A disk of ordinary size has such a journal at least, and its tables are written
		// long before pods come.
		{"mkfs.ext4", "-q", "-F", "-N", "400000", "-J", "size=256", "-E", "lazy_itable_init=0", image},
		{"mount", "-o", "loop", "-t", "ext4", image, dir},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return end, fmt.Errorf("%s: %w: %s", command[0], err, out)
		}
	}
	return func() error { return errors.Join(syscall.Unmount(dir, 0), os.Remove(image)) }, nil
}
