package hostpath_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A node has a plugin, and paths that may be volumes: all below /paths.
type node struct {
	dir, paths string
	mounter    *mount.Mounter
	host       *volume.Host
	mgr        *volume.VolumePluginMgr
	plugin     *hostpath.Plugin
}

func newNode(t *testing.T, config mount.Config, change ...func(*hostpath.Config)) *node {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := nodeIn(t, mount.New(config), dir, change...)
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	return n
}

// nodeIn is the node that lives in dir, also when another process had it before.
func nodeIn(t require.TestingT, m *mount.Mounter, dir string, change ...func(*hostpath.Config)) *node {
	n := &node{dir: dir, paths: dir + "/paths", mounter: m}
	require.NoError(t, errors.Join(os.MkdirAll(dir+"/root", 0o755), os.MkdirAll(n.paths, 0o755)))
	var err error
	n.host, err = volume.NewHost(context.Background(), dir+"/root")
	require.NoError(t, err)
	config := hostpath.Config{Mounter: m, Roots: []string{n.paths}}
	r, err := recycler.NewLocal(recycler.LocalConfig{Host: n.host, Plugin: func(s *volume.Spec) (volume.VolumePlugin, error) {
		return n.mgr.FindPluginBySpec(s)
	}})
	require.NoError(t, err)
	config.Recycler = r
	for _, c := range change {
		c(&config)
	}
	n.plugin = hostpath.New(config)
	n.mgr, err = volume.NewVolumePluginMgr(context.Background(), n.host, n.plugin)
	require.NoError(t, err)
	return n
}

func pod(uid types.UID) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }

func (n *node) mounterOf(t require.TestingT, s *volume.Spec) volume.Mounter {
	return n.mounterFor(t, s, "1")
}

func (n *node) mounterFor(t require.TestingT, s *volume.Spec, uid types.UID) volume.Mounter {
	m, err := n.plugin.NewMounter(s, pod(uid))
	require.NoError(t, err)
	return m
}

func (n *node) unmounter(t require.TestingT) volume.Unmounter { return n.unmounterFor(t, "1") }

func (n *node) unmounterFor(t require.TestingT, uid types.UID) volume.Unmounter {
	u, err := n.plugin.NewUnmounter("vol", uid)
	require.NoError(t, err)
	return u
}

func (n *node) setUp(s *volume.Spec, args ...volume.MounterArgs) (string, error) {
	m, err := n.plugin.NewMounter(s, pod("1"))
	if err != nil {
		return "", err
	}
	return m.GetPath(), m.SetUp(context.Background(), append(args, volume.MounterArgs{})[0])
}

func (n *node) tearDown(t *testing.T) {
	t.Helper()
	u := n.unmounter(t)
	for range 2 {
		require.NoError(t, u.TearDown(t.Context()))
	}
	n.requireDown(t)
}

// requireDown checks that nothing is mounted below the host's root, and no place of a
// volume left.
func (n *node) requireDown(t *testing.T) {
	t.Helper()
	require.Empty(t, n.mounts(t))
	_, err := os.Lstat(n.unmounter(t).GetPath())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func (n *node) mounts(t *testing.T) []mount.Info {
	t.Helper()
	table, err := n.mounter.List(t.Context())
	require.NoError(t, err)
	var ours []mount.Info
	for _, info := range table {
		if strings.HasPrefix(info.Mountpoint, n.host.Root()+"/") {
			ours = append(ours, info)
		}
	}
	return ours
}
