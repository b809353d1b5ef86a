package flexvolume

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A node has a host, and the plugin of a driver.
type node struct {
	host    *volume.Host
	mounter mount.Interface
	plugin  *Plugin
	root    string
}

// newNode returns a node in dir, also if another process had it before.
func newNode(t require.TestingT, dir string, mounter mount.Interface, plugin *Plugin) *node {
	root := filepath.Join(dir, "root")
	require.NoError(t, os.MkdirAll(root, 0o755))
	host, err := volume.NewHost(context.Background(), root, volume.WithNodeName("node-1"))
	require.NoError(t, err)
	require.NoError(t, plugin.Init(context.Background(), host))
	return &node{host, mounter, plugin, root}
}

func pod(uid string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", UID: types.UID(uid)},
		Spec:       v1.PodSpec{ServiceAccountName: "account"},
	}
}

func (n *node) mounterOf(t require.TestingT, spec *volume.Spec) volume.Mounter {
	m, err := n.plugin.NewMounter(spec, pod("uid"))
	require.NoError(t, err)
	return m
}

func (n *node) unmounterOf(t require.TestingT, spec *volume.Spec) volume.Unmounter {
	u, err := n.plugin.NewUnmounter(spec.Name(), "uid")
	require.NoError(t, err)
	return u
}

// mounts returns the mount points below the host's root.
func (n *node) mounts(t require.TestingT) (targets []string) {
	table, err := n.mounter.List(context.Background())
	require.NoError(t, err)
	for _, info := range table {
		if !strings.HasPrefix(info.Mountpoint, n.root+"/") {
			continue
		}
		targets = append(targets, info.Mountpoint)
	}
	return targets
}
