package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func TestMain(m *testing.M) { mounttest.Main(m, nil) }

// TestContract: the plugin keeps the promises of a volume plugin, with file systems on loop devices. Those that
// grow are xfs: some machines refuse to grow a mounted ext4.
func TestContract(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	testbed.RequirePrograms(t, "ext4", "mkfs.ext4")
	testbed.RequirePrograms(t, "xfs", "mkfs.xfs")
	disks := newStore(testbed.Tmpfs(t, t.TempDir()))
	volumetest.TestPlugin(t, volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return attachingPlugin{newPlugin(testProvisioner, "node-1", disks.dir, m)}
		},
		NewMounter: func(t *testing.T) mount.Interface {
			return mount.New(mount.Config{StagingDir: t.TempDir()})
		},
		Spec: func(t *testing.T) *volume.Spec {
			fsType, size := "ext4", int64(smallest)
			if strings.Contains(t.Name(), "Expand") {
				fsType, size = "xfs", 320<<20 // mkfs.xfs needs 300 MiB
			}
			return newDisk(t, disks, fsType, size)
		},
		BlockSpec: func(t *testing.T) *volume.Spec {
			spec, isBlock := newDisk(t, disks, "", smallest), v1.PersistentVolumeBlock
			spec.PersistentVolume.Spec.VolumeMode = &isBlock
			return spec
		},
		Enlarge: func(t *testing.T, s *volume.Spec) resource.Quantity {
			before, err := disks.grow(t.Context(), s.Name(), 0)
			require.NoError(t, err)
			size, err := disks.grow(t.Context(), s.Name(), before+320<<20)
			require.NoError(t, err)
			return *resource.NewQuantity(size, resource.BinarySI)
		},
		OwnCapacity: true,
		Claim: func(t *testing.T) volume.VolumeOptions {
			claim := &v1.PersistentVolumeClaim{}
			claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
			claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("20Mi")}
			return volume.VolumeOptions{
				PVName: "pvc-" + filepath.Base(t.Name()), PVC: claim, StorageClass: storagev1.StorageClass{Provisioner: testProvisioner},
			}
		},
		Infeasible: map[string]volume.VolumeOptions{
			"parameter": {PVName: "p", StorageClass: storagev1.StorageClass{Parameters: map[string]string{"tier": "gold"}}},
		},
		Arguments:      volumetest.Arguments{FsGroup: volumetest.Ignored},
		SELinuxRelabel: true,
		Unsupported:    []*volume.Spec{volume.NewSpecFromVolume(&v1.Volume{Name: "v"})},
	})
}

// newDisk makes a disk that no provisioner has created, and returns its volume.
func newDisk(t *testing.T, disks store, fsType string, size int64) *volume.Spec {
	t.Helper()
	pv := newPersistentVolume("static-" + filepath.Base(filepath.Dir(t.TempDir())) + filepath.Base(t.TempDir()))
	pv.Spec.FlexVolume.FSType, pv.Spec.AccessModes = fsType, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	_, err := disks.create(t.Context(), pv.Name, "an administrator", size)
	require.NoError(t, err)
	return volume.NewSpecFromPersistentVolume(pv, false)
}

// An attachingPlugin attaches disks before they are mounted, and detaches them after that, as the callers of a
// plugin do.
type attachingPlugin struct{ *plugin }

// NewDeviceMounter implements [volume.DeviceMountableVolumePlugin].
func (p attachingPlugin) NewDeviceMounter() (volume.DeviceMounter, error) {
	return attachingMounter{deviceMounter(p)}, nil
}

// NewDeviceUnmounter implements [volume.DeviceMountableVolumePlugin].
func (p attachingPlugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) {
	return attachingMounter{deviceMounter(p)}, nil
}

type attachingMounter struct{ deviceMounter }

// MountDevice implements [volume.DeviceMounter].
func (m attachingMounter) MountDevice(ctx context.Context, spec *volume.Spec, deviceMountPath string, args volume.DeviceMounterArgs) error {
	if name, err := m.GetVolumeName(spec); err == nil && ctx.Err() == nil {
		if err := m.store.attach(ctx, name, m.node); err != nil {
			return err
		}
	}
	return m.deviceMounter.MountDevice(ctx, spec, deviceMountPath, args)
}

// UnmountDevice implements [volume.DeviceUnmounter].
func (m attachingMounter) UnmountDevice(ctx context.Context, deviceMountPath string) error {
	if err := m.deviceMounter.UnmountDevice(ctx, deviceMountPath); err != nil {
		return err
	}
	return m.store.detach(ctx, filepath.Base(deviceMountPath), m.node)
}

// NewBlockVolumeMapper implements [volume.BlockVolumePlugin].
func (p attachingPlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	m, err := p.plugin.NewBlockVolumeMapper(spec, pod)
	if err != nil {
		return nil, err
	}
	return attachingDisk{m.(rawDisk)}, nil
}

// NewBlockVolumeUnmapper implements [volume.BlockVolumePlugin].
func (p attachingPlugin) NewBlockVolumeUnmapper(volumeName string, podUID types.UID) (volume.BlockVolumeUnmapper, error) {
	d, err := p.newRawDisk(volumeName, podUID)
	return attachingDisk{d}, err
}

type attachingDisk struct{ rawDisk }

func (d attachingDisk) attach(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return d.plugin.store.attach(ctx, d.name, d.plugin.node)
}

// SetUpDevice implements [volume.BlockVolumeMapper].
func (d attachingDisk) SetUpDevice(ctx context.Context, paths volume.BlockVolumePaths) (string, error) {
	if err := d.attach(ctx); err != nil {
		return "", err
	}
	return d.rawDisk.SetUpDevice(ctx, paths)
}

// MapPodDevice implements [volume.BlockVolumeMapper].
func (d attachingDisk) MapPodDevice(ctx context.Context, paths volume.BlockVolumePaths) (string, error) {
	if err := d.attach(ctx); err != nil {
		return "", err
	}
	return d.rawDisk.MapPodDevice(ctx, paths)
}

// TearDownDevice implements [volume.BlockVolumeUnmapper].
func (d attachingDisk) TearDownDevice(ctx context.Context, paths volume.BlockVolumePaths) error {
	if err := d.rawDisk.TearDownDevice(ctx, paths); err != nil {
		return err
	}
	return d.plugin.store.detach(ctx, d.name, d.plugin.node)
}

// TestRawDisk: a program that has the device of a raw disk open keeps the disk used, and attached. Its content and its
// growth reach the next node.
func TestRawDisk(t *testing.T) {
	n := newNode(t)
	if n == nil {
		return
	}
	require.NoError(t, n.unmount())
	spec, isBlock := newDisk(t, n.store, "", smallest), v1.PersistentVolumeBlock
	spec.PersistentVolume.Spec.VolumeMode = &isBlock
	require.NoError(t, n.store.attach(t.Context(), spec.Name(), "node-1"))
	raw, err := n.newRawDisk(spec.Name(), "pod")
	require.NoError(t, err)
	device, err := raw.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	program, err := os.OpenFile(device, os.O_RDWR, 0)
	require.NoError(t, err)
	defer program.Close()
	_, err = program.WriteString("written")
	require.NoError(t, err)

	size, err := n.store.grow(t.Context(), spec.Name(), 2*smallest)
	require.NoError(t, err)
	has, err := n.NodeExpand(t.Context(), volume.NodeResizeOptions{Spec: spec, NewSize: *resource.NewQuantity(size, resource.BinarySI)})
	require.NoError(t, err)
	require.True(t, has)
	metrics, err := raw.GetMetrics(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, size, metrics.Capacity.Value())

	require.NoError(t, raw.UnmapPodDevice(t.Context()))
	for range 2 {
		require.ErrorIs(t, raw.TearDownDevice(t.Context(), volume.BlockVolumePaths{}), volume.ErrFailedPrecondition)
		require.NoError(t, n.plugin.releaseUnused(t.Context()), "at the next start of the driver")
		require.ErrorIs(t, n.store.detach(t.Context(), spec.Name(), "node-1"), errUsed)
	}
	_, err = raw.SetUpDevice(t.Context(), volume.BlockVolumePaths{})
	require.ErrorIs(t, err, volume.ErrFailedPrecondition, "its last device ends first")
	require.NoError(t, program.Close())
	require.NoError(t, raw.TearDownDevice(t.Context(), volume.BlockVolumePaths{}))
	require.NoError(t, n.store.detach(t.Context(), spec.Name(), "node-1"))
	image, err := os.ReadFile(n.store.image(spec.Name()))
	require.NoError(t, err)
	require.Equal(t, "written", string(image[:7]))

	_, err = raw.SetUpDevice(t.Context(), volume.BlockVolumePaths{})
	require.ErrorIs(t, err, volume.ErrFailedPrecondition, "it is not attached")
	require.NoError(t, n.store.attach(t.Context(), spec.Name(), "node-2"))
	require.NoError(t, n.store.use(t.Context(), spec.Name(), "node-2"), "the node of the last attach has left no use")
	spec.ReadOnly = true
	_, err = n.NewBlockVolumeMapper(spec, &v1.Pod{})
	require.ErrorIs(t, err, volume.ErrNotSupported)
}

// TestRawDisksAfterRestart: after a start of the system the links to devices of before are left, and the devices have
// other names. Disks are measured by their own devices, and mapped again.
func TestRawDisksAfterRestart(t *testing.T) {
	n := newNode(t)
	if n == nil {
		return
	}
	require.NoError(t, n.unmount())
	var raws []rawDisk
	for _, size := range []int64{smallest, 2 * smallest} {
		disk := newDisk(t, n.store, "", size).Name()
		require.NoError(t, n.store.attach(t.Context(), disk, "node-1"))
		raw, err := n.newRawDisk(disk, "pod")
		require.NoError(t, err)
		_, err = raw.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err)
		raws = append(raws, raw)
	}
	for _, raw := range raws {
		require.NoError(t, n.detachDevice(t.Context(), raw.name)) // as the end of the system does
	}
	for i := range raws { // in the other order
		_, err := raws[1-i].SetUpDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err)
	}
	for i, raw := range raws {
		metrics, err := raw.GetMetrics(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, (i+1)*smallest, metrics.Capacity.Value())
		device, err := raw.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
		require.NoError(t, err)
		there, err := os.Readlink(raw.link())
		require.NoError(t, err)
		require.Equal(t, device, there)
		require.NoError(t, raw.UnmapPodDevice(t.Context()))
		require.NoError(t, raw.TearDownDevice(t.Context(), volume.BlockVolumePaths{}))
	}
}

// TestUsedDevice: a disk whose file system is mounted elsewhere stays used, and attached.
func TestUsedDevice(t *testing.T) {
	n := newNode(t)
	if n == nil {
		return
	}
	elsewhere := t.TempDir()
	require.NoError(t, unix.Mount(n.dir, elsewhere, "", unix.MS_BIND, ""))
	require.NoError(t, os.WriteFile(elsewhere+"/file", []byte("written"), 0o600))
	require.ErrorIs(t, n.unmount(), volume.ErrFailedPrecondition)
	require.ErrorIs(t, n.store.detach(t.Context(), n.disk, "node-1"), errUsed)
	require.NoError(t, n.plugin.releaseUnused(t.Context()), "at the next start of the driver")
	require.ErrorIs(t, n.store.detach(t.Context(), n.disk, "node-1"), errUsed)
	require.NoError(t, unix.Unmount(elsewhere, 0))
	require.NoError(t, n.unmount())
	require.NoError(t, n.store.detach(t.Context(), n.disk, "node-1"))
}

// TestMountAgain: a repeated MountDevice that fails leaves a mounted disk as it is.
func TestMountAgain(t *testing.T) {
	n := newNode(t)
	if n == nil {
		return
	}
	require.NoError(t, n.mount())
	n.spec.PersistentVolume.Spec.MountOptions = []string{"noexec"}
	err := n.mount()
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	require.Equal(t, volume.Final, volume.KindOf(err))
	require.NoError(t, os.Remove(n.store.path(n.disk, attachedFile)))
	require.ErrorIs(t, n.mount(), volume.ErrFailedPrecondition)
	require.NoError(t, os.WriteFile(n.dir+"/file", []byte("written"), 0o600))
	require.NoError(t, n.unmount())
}

// TestRefusedFileSystem: a file system that does not grow while it is mounted is refused before the disk is used.
func TestRefusedFileSystem(t *testing.T) {
	n := newNode(t)
	if n == nil {
		return
	}
	require.NoError(t, n.unmount())
	for _, fsType := range []string{"ext2", "vfat"} {
		n.spec.PersistentVolume.Spec.FlexVolume.FSType = fsType
		err := n.mount()
		require.ErrorAs(t, err, new(*field.Error))
		require.Equal(t, volume.Final, volume.KindOf(err))
	}
	require.NoError(t, n.store.detach(t.Context(), n.disk, "node-1"))
}

// TestReleaseUnused: a node that starts again ends the use of its disks that have no device, and of no others.
func TestReleaseUnused(t *testing.T) {
	n := newNode(t)
	if n == nil {
		return
	}
	spec := newDisk(t, n.store, "ext4", smallest)
	for _, node := range []string{"node-1", "node-2"} {
		disk := newDisk(t, n.store, "ext4", smallest).Name()
		require.NoError(t, n.store.attach(t.Context(), disk, node))
		require.NoError(t, n.store.use(t.Context(), disk, node))
		require.NoError(t, n.plugin.releaseUnused(t.Context()))
		if node == "node-1" {
			require.NoError(t, n.store.detach(t.Context(), disk, node))
		} else {
			require.ErrorIs(t, n.store.detach(t.Context(), disk, node), errUsed)
		}
	}
	require.NoError(t, n.store.attach(t.Context(), spec.Name(), "node-2"), "attached, and not used")
	require.NoError(t, n.plugin.releaseUnused(t.Context()))
	require.ErrorIs(t, n.store.detach(t.Context(), n.disk, "node-1"), errUsed, "it is mounted")
	require.NoError(t, n.unmount())
}

// A testNode is a node with one mounted disk.
type testNode struct {
	*testing.T
	*plugin
	spec      *volume.Spec
	disk, dir string
}

// newNode returns nil but in a namespace of root.
func newNode(t *testing.T) *testNode {
	t.Helper()
	if !mounttest.RootNamespace(t) {
		return nil
	}
	testbed.RequirePrograms(t, "ext4", "mkfs.ext4")
	root := testbed.Tmpfs(t, t.TempDir())
	for _, dir := range []string{"/disks", "/root"} {
		require.NoError(t, os.Mkdir(root+dir, 0o700))
	}
	n := &testNode{T: t, plugin: newPlugin(testProvisioner, "node-1", root+"/disks", mount.New(mount.Config{StagingDir: root + "/staging"}))}
	host, err := volume.NewHost(t.Context(), root+"/root", volume.WithNodeName("node-1"))
	require.NoError(t, err)
	require.NoError(t, n.Init(t.Context(), host))
	n.spec = newDisk(t, n.store, "ext4", smallest)
	n.disk = n.spec.Name()
	n.dir, err = deviceMounter{n.plugin}.GetDeviceMountPath(n.spec)
	require.NoError(t, err)
	require.NoError(t, n.store.attach(t.Context(), n.disk, "node-1"))
	require.NoError(t, n.mount())
	return n
}

func (n *testNode) mount() error {
	return deviceMounter{n.plugin}.MountDevice(n.Context(), n.spec, n.dir, volume.DeviceMounterArgs{})
}

func (n *testNode) unmount() error { return deviceMounter{n.plugin}.UnmountDevice(n.Context(), n.dir) }
