package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
	peer "k8s.io/mount-utils"
)

// newMounter was: return mount.NewSafeFormatAndMount(mount.New(""), exec.New())
func newMounter() *mountutils.SafeFormatAndMount {
	return mountutils.NewSafeFormatAndMount(mountutils.New(mount.New(mount.Config{})), disk.New(disk.Config{}))
}

// A node is the node service of the driver. Each call may be repeated.
type node struct {
	mounter *mountutils.SafeFormatAndMount // was *mount.SafeFormatAndMount
}

// stage makes the volume visible once for the whole node: a directory, or with a type of file system a block device.
func (n *node) stage(source, staging, fsType string, flags []string) error {
	mounted, err := n.prepare(staging)
	if err != nil || mounted {
		return err
	}
	if fsType == "" {
		return n.mounter.Mount(source, staging, "", append([]string{"bind"}, flags...))
	}
	return n.mounter.FormatAndMount(source, staging, fsType, flags)
}

// publish makes the staged volume visible for one pod.
func (n *node) publish(staging, target string, readOnly bool) error {
	mounted, err := n.prepare(target)
	if err != nil || mounted {
		return err
	}
	options := []string{"bind"}
	if readOnly {
		options = append(options, "ro")
	}
	return n.mounter.Mount(staging, target, "", options)
}

// prepare creates the mount point, and reports whether the volume is mounted there already.
func (n *node) prepare(target string) (mounted bool, err error) {
	notMounted, err := n.mounter.IsLikelyNotMountPoint(target)
	switch {
	case os.IsNotExist(err):
		return false, os.MkdirAll(target, 0o750)
	case peer.IsCorruptedMnt(err):
		return false, n.mounter.Unmount(target)
	}
	return !notMounted && err == nil, err
}

// unpublish undoes publish.
func (n *node) unpublish(target string) error { return peer.CleanupMountPoint(target, n.mounter, true) }

var errInUse = errors.New("the volume is still published")

// unstage undoes stage, after the last pod's unpublish.
func (n *node) unstage(staging string) error {
	pods, err := n.mounter.GetMountRefs(staging)
	if err == nil && len(pods) > 0 {
		err = fmt.Errorf("%w: %v", errInUse, pods)
	}
	if err != nil {
		return err
	}
	return peer.CleanupMountPoint(staging, n.mounter, true)
}
