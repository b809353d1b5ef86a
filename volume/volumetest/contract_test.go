package volumetest_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

var volumes atomic.Int32

// tempDir returns a new directory whose path has no symbolic link.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func newSpec(t *testing.T) *volume.Spec {
	name := fmt.Sprintf("volume-%d", volumes.Add(1))
	return volumetest.NewFakePlugin(volumetest.FakeConfig{}).NewSpec(name, tempDir(t))
}

// storage has the sizes of volumes, by name. New ones have 1 MiB.
type storage struct{ sizes sync.Map }

func (s *storage) size(spec *volume.Spec) int64 {
	if size, ok := s.sizes.Load(spec.Name()); ok {
		return size.(int64)
	}
	return 1 << 20
}

func (s *storage) enlarge(_ *testing.T, spec *volume.Spec) resource.Quantity {
	size := s.size(spec) + 1<<20
	s.sizes.Store(spec.Name(), size)
	return *resource.NewQuantity(size, resource.BinarySI)
}

func newClaim(*testing.T) volume.VolumeOptions {
	policy := v1.PersistentVolumeReclaimDelete
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"}}
	claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	return volume.VolumeOptions{
		PVName: fmt.Sprintf("pvc-%d", volumes.Add(1)), PVC: claim,
		StorageClass: storagev1.StorageClass{Provisioner: "volumekit.io/fake", ReclaimPolicy: &policy, MountOptions: []string{"noatime"}},
	}
}

func fakeConfig() volumetest.Config[*testing.T] {
	var disks storage
	noDirectory := volumetest.NewFakePlugin(volumetest.FakeConfig{}).NewSpec("invalid", "")
	relative := volumetest.NewFakePlugin(volumetest.FakeConfig{}).NewSpec("invalid", "a/b")
	infeasible := newClaim(nil)
	infeasible.PVC.Spec.Selector = &metav1.LabelSelector{}
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			return volumetest.NewFakePlugin(volumetest.FakeConfig{
				Mounter: mounter, Size: disks.size, MaxVolumes: 3, Nodes: []types.NodeName{"node-1"},
				MaxSize: 1 << 40, OfflineExpansion: true,
			})
		},
		Claim:          newClaim,
		Infeasible:     map[string]volume.VolumeOptions{"selector": infeasible},
		OtherNode:      &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}},
		MaxVolumes:     3,
		InfeasibleSize: resource.MustParse("2Ti"), OfflineExpansion: true,
		Enlarge: disks.enlarge,
		Spec:    newSpec,
		ReadOnlySpec: func(t *testing.T) *volume.Spec {
			spec := newSpec(t)
			spec.PersistentVolume.Spec.CSI.ReadOnly = true
			return spec
		},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "none"}),
			volume.NewSpecFromVolume(&v1.Volume{
				Name:         "nfs",
				VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "a.example", Path: "/"}},
			}),
		},
		Invalid: map[string]*volume.Spec{"no directory": noDirectory, "relative path": relative},
		BlockSpec: func(t *testing.T) *volume.Spec {
			spec, block := newSpec(t), v1.PersistentVolumeBlock
			spec.PersistentVolume.Spec.VolumeMode = &block
			return spec
		},
		Backing: func(spec *volume.Spec) string { return spec.PersistentVolume.Spec.CSI.VolumeHandle },
		Arguments: volumetest.Arguments{
			FsUser: volumetest.Ignored, FsGroup: volumetest.Ignored,
			DesiredSize: volumetest.Ignored, SELinuxLabel: volumetest.Ignored,
		},
	}
}

func TestFakePluginKeepsTheContract(t *testing.T) {
	volumetest.TestPlugin(t, fakeConfig())
}

func TestFakePluginKeepsTheContractOnTheRealKernel(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	config := fakeConfig()
	config.NewMounter = func(*testing.T) mount.Interface { return mount.New(mount.Config{}) }
	volumetest.TestPlugin(t, config)
}
