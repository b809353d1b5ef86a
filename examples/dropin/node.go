package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/volumekit/volumekit/mount/mountutils"
	mount "k8s.io/mount-utils"
)

// A volume is the volume that the driver's controller has published to the node.
type volume struct {
	source string   // a directory, or a block device
	fsType string   // of a block device
	flags  []string // mount options from the storage class
}

// A node is the node service of the driver: NodeStageVolume, NodePublishVolume, and their
// reverses. Each call may be repeated.
//
// The type was *mount.SafeFormatAndMount.
type node struct {
	mounter *mountutils.SafeFormatAndMount
}

// stage makes the volume visible once for the whole node.
func (n *node) stage(v volume, staging string) error {
	mounted, err := n.prepare(staging)
	if err != nil || mounted {
		return err
	}
	if v.fsType == "" {
		return n.mounter.Mount(v.source, staging, "", append([]string{"bind"}, v.flags...))
	}
	return n.mounter.FormatAndMount(v.source, staging, v.fsType, v.flags)
}

// publish makes the staged volume visible for one pod.
func (n *node) publish(v volume, staging, target string, readOnly bool) error {
	mounted, err := n.prepare(target)
	if err != nil || mounted {
		return err
	}
	options := append([]string{"bind"}, v.flags...)
	if readOnly {
		options = append(options, "ro")
	}
	return n.mounter.Mount(staging, target, v.fsType, options)
}

// publishDevice makes a raw block volume visible for one pod: the device file is bound to a file. The
// mounter permits it without mount.Config.Allow, which is about device files in file systems.
func (n *node) publishDevice(device, target string, readOnly bool) error {
	notMounted, err := n.mounter.IsLikelyNotMountPoint(target)
	if os.IsNotExist(err) {
		notMounted, err = true, os.WriteFile(target, nil, 0o640)
	}
	if err != nil || !notMounted {
		return err
	}
	options := []string{"bind"}
	if readOnly {
		options = append(options, "ro")
	}
	return n.mounter.Mount(device, target, "", options)
}

// remove undoes stage, publish, or publishDevice.
func (n *node) remove(target string) error {
	if _, err := os.Lstat(target); os.IsNotExist(err) {
		return nil
	}
	return mount.CleanupMountPoint(target, n.mounter, true)
}

// prepare creates the mount point, and reports whether the volume is mounted there already.
func (n *node) prepare(target string) (mounted bool, err error) {
	notMounted, err := n.mounter.IsLikelyNotMountPoint(target)
	switch {
	case os.IsNotExist(err):
		return false, os.MkdirAll(target, 0o750)
	case mount.IsCorruptedMnt(err):
		return false, n.mounter.Unmount(target)
	}
	return !notMounted && err == nil, err
}

// publishedAt returns the pods' paths at which a staged volume is published.
func (n *node) publishedAt(staging string) ([]string, error) {
	refs, err := n.mounter.GetMountRefs(staging)
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", staging, err)
	}
	return refs, nil
}

var errInUse = errors.New("the volume is still published")

// unstage undoes stage, after the last pod's unpublish.
func (n *node) unstage(staging string) error {
	pods, err := n.publishedAt(staging)
	if err != nil {
		return err
	}
	if len(pods) > 0 {
		return fmt.Errorf("%w: %v", errInUse, pods)
	}
	return n.remove(staging)
}
