package nfs_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestViews: a pod that has a claim by two names, to read and to write, has two mounts, one of
// them read-only, in either order. Each is set up again, recognized and taken down by itself.
func TestViews(t *testing.T) {
	for _, oneMount := range []bool{false, true} {
		for _, readsFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("one mount %v, reads first %v", oneMount, readsFirst), func(t *testing.T) {
				fake := mounttest.NewFake(mount.Config{})
				host, plugin := newHost(t, nfs.Config{Mounter: fake, OneMountPerExport: oneMount})
				n := viewNode{t, host, plugin, fake, viewer()}
				n.runLifecycle(readsFirst)
			})
		}
	}
}

// viewer is a pod that reads a claim by its first name, and writes to it by the second.
func viewer() *v1.Pod {
	pod := podNamed("1")
	for _, name := range []string{"reads", "writes"} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "a", ReadOnly: name == "reads"},
		}})
	}
	return pod
}

func podNamed(uid types.UID) *v1.Pod {
	pod := &v1.Pod{}
	pod.UID = uid
	return pod
}

type viewNode struct {
	*testing.T
	host   *volume.Host
	plugin *nfs.Plugin
	kernel *mounttest.Fake
	pod    *v1.Pod
}

func (n viewNode) runLifecycle(readsFirst bool) {
	views := []*v1.Volume{&n.pod.Spec.Volumes[1], &n.pod.Spec.Volumes[0]}
	if readsFirst {
		views[0], views[1] = views[1], views[0]
	}
	for range 2 { // the second time all is there
		for _, v := range views {
			require.NoError(n, n.mounter(v).SetUp(n.Context(), volume.MounterArgs{}))
		}
	}
	for _, v := range views {
		n.requireUp(v)
	}
	for i, v := range views {
		unmounter, err := n.plugin.NewUnmounter(n.directory(v), n.pod.UID)
		require.NoError(n, err)
		require.NoError(n, unmounter.TearDown(n.Context()))
		require.NoDirExists(n, n.path(v))
		if i == 0 {
			n.requireUp(views[1])
		}
	}
	table, err := n.kernel.List(n.Context())
	require.NoError(n, err)
	for _, info := range table {
		require.NotContains(n, info.Source, "/exports/a")
	}
}

// requireUp: the volume is mounted as the name has it, and recognized so.
func (n viewNode) requireUp(v *v1.Volume) {
	n.Helper()
	table, err := n.kernel.List(n.Context())
	require.NoError(n, err)
	at, ok := mount.Table(table).At(n.path(v))
	require.True(n, ok)
	require.Equal(n, v.Name == "reads", at.Flags&mount.ReadOnly != 0)
	found, err := n.plugin.ConstructVolumeSpec(n.Context(), podvolume.ViewedName(n.directory(v)), n.path(v))
	require.NoError(n, err)
	require.Equal(n, n.spec(v).Name(), found.Spec.Name())
	require.Equal(n, v.Name == "reads", found.Spec.IsReadOnly())
	require.Equal(n, "/exports/a", found.Spec.PersistentVolume.Spec.NFS.Path)
}

func (n viewNode) spec(v *v1.Volume) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(writable("/exports/a").PersistentVolume, v.PersistentVolumeClaim.ReadOnly)
}

func (n viewNode) directory(v *v1.Volume) string { return podvolume.ViewName(n.pod, v, n.spec(v)) }

func (n viewNode) path(v *v1.Volume) string {
	n.Helper()
	path, err := n.host.PodVolumeDir(n.pod.UID, nfs.PluginName, n.directory(v))
	require.NoError(n, err)
	require.Equal(n, v.Name == "reads", podvolume.IsView(filepath.Base(path)))
	return path
}

func (n viewNode) mounter(v *v1.Volume) volume.Mounter {
	n.Helper()
	mounter, err := n.plugin.NewMounter(n.spec(v), n.pod)
	require.NoError(n, err)
	return podvolume.MounterAt(mounter, n.path(v))
}
