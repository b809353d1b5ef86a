package main

import (
	"errors"
	"fmt"
	"os"

	mount "k8s.io/mount-utils"
	"k8s.io/utils/exec"
)

// A volume is what the driver's controller has published to the node.
type volume struct {
	source string   // a directory, or a block device
	fsType string   // of a block device
	flags  []string // mount options from the storage class
}

// A node is the node service of the driver: NodeStageVolume, NodePublishVolume,
// and what undoes them. Each call may be repeated.
type node struct{ mounter *mount.SafeFormatAndMount }

func newNode(mounter mount.Interface, exec exec.Interface) *node {
	return &node{mount.NewSafeFormatAndMount(mounter, exec)}
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

// remove undoes stage, or publish.
func (n *node) remove(target string) error {
	if _, err := os.Lstat(target); os.IsNotExist(err) {
		return nil
	}
	return mount.CleanupMountPoint(target, n.mounter, true)
}

// prepare makes sure of a directory to mount on, and reports whether that has been
// done already.
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

// publishedAt returns the paths of the pods that a staged volume is published for.
func (n *node) publishedAt(staging string) ([]string, error) {
	refs, err := n.mounter.GetMountRefs(staging)
	if err != nil {
		return nil, fmt.Errorf("what is published of %s: %w", staging, err)
	}
	return refs, nil
}

var errInUse = errors.New("the volume is still published")

// unstage undoes stage, when no pod has the volume any more.
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
