package nfs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A node has the plugin, and a server of NFS in the same kernel.
type node struct {
	*testing.T
	server *nfsserver.Server
	export string // a directory that the server has
	host   *volume.Host
	mounts *mount.Mounter
	plugin *nfs.Plugin
	grace  time.Duration // that a server has which does not answer; two seconds
}

// newNode returns a node in a guest; a test outside a guest is skipped. At the end of the
// test the remaining volumes are unmounted.
func newNode(t *testing.T, c nfs.Config) *node {
	t.Helper()
	export := t.TempDir()
	n := &node{T: t, export: export, server: nfsserver.Start(t, export)}
	n.on(t.TempDir(), c)
	t.Cleanup(func() {
		require.NoError(t, n.server.LinkUp())
		for _, info := range n.mountsBelowRoot() {
			assert.NoError(t, n.mounts.UnmountTree(n.within(time.Minute), info.Mountpoint))
		}
	})
	return n
}

// on sets the plugin up below a directory.
func (n *node) on(dir string, c nfs.Config) {
	n.Helper()
	require.NoError(n, os.MkdirAll(dir+"/root", 0o755))
	host, err := volume.NewHost(context.Background(), dir+"/root", volume.WithNodeName("node-1"))
	require.NoError(n, err)
	n.host, n.mounts = host, realMounter(dir, cmp.Or(n.grace, 2*time.Second))
	c.Mounter = n.mounts
	n.plugin = nfs.New(c)
	require.NoError(n, n.plugin.Init(context.Background(), host))
}

// realMounter executes no program, and gives a server that does not answer so much
// time.
func realMounter(dir string, grace time.Duration) *mount.Mounter {
	return mount.New(mount.Config{
		StagingDir: dir + "/staging",
		Helpers:    []string{},
		Unmount:    mount.UnmountPolicy{Grace: grace},
	})
}

// pv returns a persistent volume for a path of the server. The path determines its name.
func (n *node) pv(path string, options ...string) *volume.Spec {
	return pvAt(n.server.Address, path, options...)
}

func pvAt(server, path string, options ...string) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: nameFor(path)},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{NFS: source(server, path, false)},
			MountOptions:           options,
		},
	}, false)
}

// inline returns a volume of a pod's specification for a path of the server.
func (n *node) inline(path string) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{
		Name:         nameFor(path),
		VolumeSource: v1.VolumeSource{NFS: source(n.server.Address, path, false)},
	})
}

func podOf(uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: types.UID(uid)}}
}

func (n *node) mounter(spec *volume.Spec, uid string) volume.Mounter {
	n.Helper()
	mounter, err := n.plugin.NewMounter(spec, podOf(uid))
	require.NoError(n, err)
	return mounter
}

func (n *node) unmounter(spec *volume.Spec, uid string) volume.Unmounter {
	n.Helper()
	unmounter, err := n.plugin.NewUnmounter(spec.Name(), types.UID(uid))
	require.NoError(n, err)
	return unmounter
}

// setUp sets a volume up and returns its mount.
func (n *node) setUp(spec *volume.Spec, uid string) mount.Info {
	n.Helper()
	mounter := n.mounter(spec, uid)
	require.NoError(n, mounter.SetUp(n.patientContext(), volume.MounterArgs{}))
	return n.mountAt(mounter.GetPath())
}

// tearDown takes a volume down and checks that nothing is left of it.
func (n *node) tearDown(spec *volume.Spec, uid string) {
	n.Helper()
	unmounter := n.unmounter(spec, uid)
	require.NoError(n, unmounter.TearDown(n.patientContext()))
	n.requireGone(unmounter.GetPath())
}

// tearDownRepeatedly tears down within bounds, as often as it takes: a call that has begun
// something leaves it to the next.
func tearDownRepeatedly(tearDown func(ctx context.Context) error) (err error) {
	for range 30 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err = tearDown(ctx)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

func (n *node) requireGone(path string) {
	n.Helper()
	_, err := os.Lstat(path)
	require.ErrorIs(n, err, fs.ErrNotExist)
}

// requireEnded requires a transient error of a call whose context has ended. On a busy machine the error may be
// uncertain, since the call's work ends later. The test checks the state of the mounts.
func (n *node) requireEnded(err error, call string) {
	n.Helper()
	require.ErrorIs(n, err, context.DeadlineExceeded, call)
	require.NotEqual(n, volume.Final, volume.KindOf(err), "%s: %v", call, err)
}

// patientContext returns a context for calls that wait for the server.
func (n *node) patientContext() context.Context { return n.within(2 * time.Minute) }

func (n *node) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.Context()), d)
	n.Cleanup(cancel)
	return ctx
}

// mountAt returns the mount at a path.
func (n *node) mountAt(path string) mount.Info {
	n.Helper()
	at, ok := n.mountsBelowRoot().At(path)
	require.True(n, ok, "nothing is mounted at %s", path)
	return at
}

// mountsBelowRoot returns the mounts below the host's root.
func (n *node) mountsBelowRoot() mount.Table {
	n.Helper()
	list, err := n.mounts.List(context.WithoutCancel(n.Context()))
	require.NoError(n, err)
	var ours mount.Table
	for _, info := range list {
		if strings.HasPrefix(info.Mountpoint, n.host.Root()+"/") {
			ours = append(ours, info)
		}
	}
	return ours
}

// ownDir is where the plugin mounts exports that pods share.
func (n *node) ownDir() string {
	n.Helper()
	dir, err := n.host.PluginDir(nfs.PluginName)
	require.NoError(n, err)
	return dir
}

// exported makes a directory that the server has, and returns its path.
func (n *node) exported(name string) string {
	n.Helper()
	path := filepath.Join(n.export, name)
	if err := os.Mkdir(path, 0o777); !errors.Is(err, fs.ErrExist) {
		require.NoError(n, err)
	}
	require.NoError(n, os.WriteFile(path+"/precious", []byte(fmt.Sprint("of ", name)), 0o644))
	return path
}

// nfsOf returns the NFS source of a specification.
func nfsOf(spec *volume.Spec) *v1.NFSVolumeSource {
	if spec.Volume != nil {
		return spec.Volume.NFS
	}
	return spec.PersistentVolume.Spec.NFS
}
