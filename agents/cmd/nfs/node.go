package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A node embeds the library: a directory for the volumes of its pods, a mounter, and the
// plugin.
type node struct {
	*console
	root    string
	mounter mount.Interface
	plugins *volume.VolumePluginMgr
	timeout time.Duration // of a step
	volumes []*podVolume  // that may be set up
}

// newNode creates the node's directory, which tidyUp removes.
func newNode(ctx context.Context, c *console, mounter mount.Interface, timeout time.Duration) (*node, error) {
	root, err := os.MkdirTemp("", "nfs-example-")
	if err != nil {
		return nil, err
	}
	plugins, host, err := pluginsFor(ctx, root, mounter)
	if err != nil {
		return nil, errors.Join(err, os.Remove(root))
	}
	return &node{console: c, root: host.Root(), mounter: mounter, plugins: plugins, timeout: timeout}, nil
}

// pluginsFor registers the plugins of this node: one.
func pluginsFor(ctx context.Context, root string, mounter mount.Interface) (*volume.VolumePluginMgr, *volume.Host, error) {
	host, err := volume.NewHost(ctx, root)
	if err != nil {
		return nil, nil, err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, nfs.New(nfs.Config{Mounter: mounter}))
	return plugins, host, err
}

// plan validates the volume before anything is mounted.
func (n *node) plan(podName string, spec *volume.Spec) (*podVolume, error) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: podName, UID: types.UID("default_" + podName),
	}}
	plugin, err := n.plugins.FindPluginBySpec(spec)
	if err != nil {
		return nil, err
	}
	v := &podVolume{node: n, pod: podName}
	if v.Mounter, err = plugin.NewMounter(spec, pod); err != nil {
		return nil, err
	}
	v.down, err = plugin.NewUnmounter(spec.Name(), pod.UID)
	return v, err
}

// within limits a step to the timeout.
func (n *node) within(ctx context.Context, step func(context.Context) error) error {
	return within(ctx, n.timeout, step)
}

func within(ctx context.Context, limit time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return step(ctx)
}

// tidyUp takes down the volumes, also after an interrupt, and verifies that nothing is
// left.
func (n *node) tidyUp(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, v := range slices.Clone(n.volumes) {
		if err := v.tearDown(ctx, n.timeout); err != nil {
			errs = append(errs, err)
		}
	}
	if err := safepath.Rmdir(context.Background(), n.root); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, n.within(ctx, n.verifyRemoved))...); err != nil {
		return err
	}
	n.printf("No mount and no directory is left.\n")
	return nil
}

// verifyRemoved searches the mount table and the directory for remains.
func (n *node) verifyRemoved(ctx context.Context) error {
	table, err := n.mounter.List(ctx)
	if err != nil {
		return err
	}
	for _, info := range table {
		if info.Mountpoint == n.root || strings.HasPrefix(info.Mountpoint, n.root+"/") {
			err = errors.Join(err, fmt.Errorf("left: mount %s", info.Mountpoint))
		}
	}
	if _, statErr := os.Lstat(n.root); !errors.Is(statErr, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("left: directory %s", n.root))
	}
	return err
}

// relative returns a path relative to the node's directory.
func (n *node) relative(name string) string {
	if rest, err := filepath.Rel(n.root, name); err == nil {
		return rest
	}
	return name
}
