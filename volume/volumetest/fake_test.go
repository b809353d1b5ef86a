package volumetest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "pod-uid-1"}}

// registered returns a fake plugin with a host.
func registered(t *testing.T, config volumetest.FakeConfig) (*volumetest.FakePlugin, *volume.VolumePluginMgr) {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	p := volumetest.NewFakePlugin(config)
	mgr, err := volume.NewVolumePluginMgr(t.Context(), host, p)
	require.NoError(t, err)
	return p, mgr
}

func requireAbility[A any](t *testing.T, plugin volume.VolumePlugin) {
	t.Helper()
	_, ok := volume.As[A](plugin)
	require.True(t, ok, "%T", *new(A))
}

func TestFakePluginHasEveryAbility(t *testing.T) {
	p, _ := registered(t, volumetest.FakeConfig{})
	requireAbility[volume.PersistentVolumePlugin](t, p)
	requireAbility[volume.MountOptionsVolumePlugin](t, p)
	requireAbility[volume.RemountVolumePlugin](t, p)
	requireAbility[volume.SELinuxVolumePlugin](t, p)
	requireAbility[volume.RecyclableVolumePlugin](t, p)
	requireAbility[volume.DeletableVolumePlugin](t, p)
	requireAbility[volume.ProvisionableVolumePlugin](t, p)
	requireAbility[volume.AttachableVolumePlugin](t, p)
	requireAbility[volume.DeviceMountableVolumePlugin](t, p)
	requireAbility[volume.ExpandableVolumePlugin](t, p)
	requireAbility[volume.NodeExpandableVolumePlugin](t, p)
	requireAbility[volume.BlockVolumePlugin](t, p)
}

// TestFaults: an injected fault strikes before or after the work of a method, as often as it
// says.
func TestFaults(t *testing.T) {
	p, _ := registered(t, volumetest.FakeConfig{})
	mounter, err := p.NewMounter(newSpec(t), pod)
	require.NoError(t, err)
	boom := errors.New("boom")

	p.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: boom, Times: 1})
	err = mounter.SetUp(t.Context(), volume.MounterArgs{})
	require.ErrorIs(t, err, boom)
	require.Equal(t, volume.Final, volume.KindOf(err), "a plain error")
	require.NoDirExists(t, mounter.GetPath())

	p.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: boom, After: true, Times: 1})
	err = mounter.SetUp(t.Context(), volume.MounterArgs{})
	require.ErrorIs(t, err, boom)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	require.DirExists(t, mounter.GetPath())

	require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}), "used up")
	require.Equal(t, 3, p.Calls(volumetest.SetUp))
	require.Zero(t, p.Calls(volumetest.TearDown))

	p.Inject(volumetest.Fault{Method: volumetest.NewMounter, Err: boom})
	for range 2 {
		_, err = p.NewMounter(newSpec(t), pod)
		require.ErrorIs(t, err, boom)
	}
	p.ClearFaults()
	_, err = p.NewMounter(newSpec(t), pod)
	require.NoError(t, err)
}

func TestDelayEndsWithTheContext(t *testing.T) {
	p, _ := registered(t, volumetest.FakeConfig{})
	mounter, err := p.NewMounter(newSpec(t), pod)
	require.NoError(t, err)
	p.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, mounter.SetUp(ctx, volume.MounterArgs{}), context.DeadlineExceeded)
	require.NoDirExists(t, mounter.GetPath())
}

func TestCallsAreCountedConcurrently(t *testing.T) {
	p, _ := registered(t, volumetest.FakeConfig{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				_ = p.Recycle(t.Context(), "pv", newSpec(t))
			}
		})
	}
	wg.Wait()
	require.Equal(t, 80, p.Calls(volumetest.Recycle))
}

func TestFakePluginForOtherKinds(t *testing.T) {
	dir := tempDir(t)
	_, mgr := registered(t, volumetest.FakeConfig{
		Name:       "example.com/nfs",
		CanSupport: func(spec *volume.Spec) bool { return spec.Volume != nil && spec.Volume.NFS != nil },
		Directory:  func(*volume.Spec) (string, error) { return dir, nil },
		NoAttach:   true, NoDeviceMount: true,
	})
	spec := volume.NewSpecFromVolume(&v1.Volume{
		Name: "music", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{ReadOnly: true}},
	})
	plugin, err := mgr.FindPluginBySpec(spec)
	require.NoError(t, err)
	_, ok, err := mgr.FindAttachablePluginBySpec(t.Context(), spec)
	require.NoError(t, err)
	require.False(t, ok)
	_, ok, err = mgr.FindDeviceMountablePluginBySpec(t.Context(), spec)
	require.NoError(t, err)
	require.False(t, ok)
	mounter, err := plugin.NewMounter(spec, pod)
	require.NoError(t, err)
	require.True(t, mounter.GetAttributes().ReadOnly)
	require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
}

func TestPluginWithoutInit(t *testing.T) {
	p := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	_, err := p.NewMounter(newSpec(t), pod)
	require.ErrorContains(t, err, "Init")
	_, err = p.NewUnmounter("data", pod.UID)
	require.ErrorContains(t, err, "Init")
}

func TestAttach(t *testing.T) {
	p, _ := registered(t, volumetest.FakeConfig{})
	spec, other := newSpec(t), newSpec(t)
	name, err := p.GetVolumeName(spec)
	require.NoError(t, err)
	attacher, err := p.NewAttacher()
	require.NoError(t, err)
	_, err = attacher.WaitForAttach(t.Context(), spec, "", pod)
	require.ErrorIs(t, err, volume.ErrTransient)
	for range 2 {
		device, err := attacher.Attach(t.Context(), spec, "node-1")
		require.NoError(t, err)
		require.NotEmpty(t, device)
	}
	_, err = attacher.WaitForAttach(t.Context(), spec, "", pod)
	require.NoError(t, err)
	require.Equal(t, []types.NodeName{"node-1"}, p.AttachedTo(name))
	attached, err := attacher.VolumesAreAttached(t.Context(), []*volume.Spec{spec, other}, "node-1")
	require.NoError(t, err)
	require.Equal(t, map[*volume.Spec]bool{spec: true, other: false}, attached)
	detacher, err := p.NewDetacher()
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, detacher.Detach(t.Context(), volume.DetachRequest{VolumeName: name, Node: "node-1"}))
	}
	require.Empty(t, p.AttachedTo(name))
}

func TestDeviceMount(t *testing.T) {
	p, _ := registered(t, volumetest.FakeConfig{})
	spec := newSpec(t)
	device, err := p.NewDeviceMounter()
	require.NoError(t, err)
	path, err := device.GetDeviceMountPath(spec)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, device.MountDevice(t.Context(), spec, path, volume.DeviceMounterArgs{}))
	}
	mounter, err := p.NewMounter(spec, pod)
	require.NoError(t, err)
	require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
	refs, err := p.GetDeviceMountRefs(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, []string{mounter.GetPath()}, refs)
	undo, err := p.NewDeviceUnmounter()
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, undo.UnmountDevice(t.Context(), path))
	}
	require.NoDirExists(t, path)
}

func TestBlock(t *testing.T) {
	p, _ := registered(t, volumetest.FakeConfig{})
	spec := newSpec(t)
	mapper, err := p.NewBlockVolumeMapper(spec, pod)
	require.NoError(t, err)
	_, err = mapper.SetUpDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	var path string
	for range 2 {
		path, err = mapper.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err)
	}
	dir, name := mapper.GetPodDeviceMapPath()
	require.Equal(t, filepath.Join(dir, name), path)
	_, err = mapper.GetMetrics(t.Context())
	require.NoError(t, err)

	found, err := p.ConstructBlockVolumeSpec(t.Context(), pod.UID, spec.Name(), path)
	require.NoError(t, err)
	require.True(t, found.Spec.IsBlock())
	want, err := p.GetVolumeName(spec)
	require.NoError(t, err)
	got, err := p.GetVolumeName(found.Spec)
	require.NoError(t, err)
	require.Equal(t, want, got)

	unmapper, err := p.NewBlockVolumeUnmapper(spec.Name(), pod.UID)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, unmapper.UnmapPodDevice(t.Context()))
	}
	global, err := unmapper.GetGlobalMapPath(spec)
	require.NoError(t, err)
	require.NoError(t, unmapper.TearDownDevice(t.Context(), volume.BlockVolumePaths{GlobalMapPath: global}))
	_, err = p.ConstructBlockVolumeSpec(t.Context(), pod.UID, spec.Name(), path)
	require.ErrorIs(t, err, volume.ErrNotMounted)
	_, err = p.NewBlockVolumeUnmapper("../x", pod.UID)
	require.Error(t, err)
}

func TestProvisionAndDelete(t *testing.T) {
	p, _ := registered(t, volumetest.FakeConfig{})
	provisioner, err := p.NewProvisioner(volume.VolumeOptions{PVName: "pv-1", PVC: &v1.PersistentVolumeClaim{}})
	require.NoError(t, err)
	pv, err := provisioner.Provision(t.Context())
	require.NoError(t, err)
	dir := pv.Spec.CSI.VolumeHandle
	require.DirExists(t, dir)
	spec := volume.NewSpecFromPersistentVolume(pv, false)
	deleter, err := p.NewDeleter(spec)
	require.NoError(t, err)

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Error(t, deleter.Delete(t.Context()), "the fake deletes no files")
	require.FileExists(t, file)
	require.NoError(t, os.Remove(file))
	for range 2 {
		require.NoError(t, deleter.Delete(t.Context()))
	}
	_, err = p.NewDeleter(newSpec(t))
	require.EqualError(t, err, "ignored because the volume was not provisioned by volumekit.io/fake")
	_, err = p.NewProvisioner(volume.VolumeOptions{PVName: ".."})
	require.Error(t, err)
}

// TestExpand: volumes grow on both sides, and never shrink.
func TestExpand(t *testing.T) {
	p, _ := registered(t, volumetest.FakeConfig{})
	small, large := resource.MustParse("1Gi"), resource.MustParse("2Gi")
	spec := newSpec(t)
	result, err := p.ExpandVolumeDevice(t.Context(), volume.ExpandRequest{Spec: spec, NewSize: large, OldSize: small})
	require.NoError(t, err)
	require.Equal(t, large, result.Size)
	require.True(t, result.NodeExpansionRequired)
	result, err = p.ExpandVolumeDevice(t.Context(), volume.ExpandRequest{Spec: spec, NewSize: small, OldSize: large})
	require.NoError(t, err)
	require.Equal(t, large, result.Size, "never smaller")
	done, err := p.NodeExpand(t.Context(), volume.NodeResizeOptions{Spec: spec, NewSize: large})
	require.NoError(t, err)
	require.True(t, done)

	block := v1.PersistentVolumeBlock
	spec.PersistentVolume.Spec.VolumeMode = &block
	result, err = p.ExpandVolumeDevice(t.Context(), volume.ExpandRequest{Spec: spec, NewSize: large, OldSize: small})
	require.NoError(t, err)
	require.False(t, result.NodeExpansionRequired, "a raw device has no file system")
}

// TestKeepsTheDirectoryUnderAMount: a kernel in memory lets a directory be removed under its
// mount; the plugin does not remove it.
func TestKeepsTheDirectoryUnderAMount(t *testing.T) {
	kernel := mounttest.NewFake(mount.Config{})
	p, _ := registered(t, volumetest.FakeConfig{Mounter: kernel})
	mounter, err := p.NewMounter(newSpec(t), pod)
	require.NoError(t, err)
	kernel.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: errors.New("boom"), After: true, Times: 1})
	require.ErrorIs(t, mounter.SetUp(t.Context(), volume.MounterArgs{}), volume.ErrUncertain)
	require.DirExists(t, mounter.GetPath())
	require.ErrorIs(t, mounter.SetUp(t.Context(), volume.MounterArgs{ReadOnly: true}), mount.ErrMounted)
	require.DirExists(t, mounter.GetPath())
}
