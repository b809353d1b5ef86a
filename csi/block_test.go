package csi

import (
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A blockNode is a fakeNode with one block volume.
type blockNode struct {
	*fakeNode
	spec  *volume.Spec
	paths volume.BlockVolumePaths
}

func newBlockNode(t testing.TB, caps ...rpc) *blockNode {
	t.Helper()
	n := newFakeNode(t, caps...)
	b := &blockNode{fakeNode: n, spec: n.block("raw")}
	var err error
	b.paths.GlobalMapPath, err = b.unmapper("uid-1").GetGlobalMapPath(b.spec)
	require.NoError(t, err)
	return b
}

func (b *blockNode) mapper(pod types.UID) volume.BlockVolumeMapper {
	b.t.Helper()
	of := b.pod.DeepCopy()
	of.UID = pod
	m, err := b.plugin.NewBlockVolumeMapper(b.spec, of)
	require.NoError(b.t, err)
	return m
}

func (b *blockNode) unmapper(pod types.UID) volume.BlockVolumeUnmapper {
	b.t.Helper()
	u, err := b.plugin.NewBlockVolumeUnmapper("raw", pod)
	require.NoError(b.t, err)
	return u
}

func (b *blockNode) link(pod types.UID) string {
	dir, name := b.unmapper(pod).GetPodDeviceMapPath()
	return filepath.Join(dir, name)
}

// TestBlockVolume: the calls for a device have every argument, at the paths of a kubelet, for two pods,
// and afterwards nothing is left.
func TestBlockVolume(t *testing.T) {
	b := newBlockNode(t, capStage)
	b.withObject(storagev1.CSIDriverSpec{PodInfoOnMount: ptr(true), TokenRequests: []storagev1.TokenRequest{{}}})
	b.secrets["kube/stage"] = map[string][]byte{"user": []byte("s")}
	b.spec.PersistentVolume.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "kube", Name: "stage"}
	b.spec.PersistentVolume.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	b.spec.PersistentVolume.Spec.MountOptions = []string{"noatime"}
	devices := filepath.Join(b.host.Root(), "plugins/kubernetes.io/csi/volumeDevices")
	require.Equal(t, filepath.Join(devices, "raw/dev"), b.paths.GlobalMapPath)

	staged, err := b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(devices, "staging/raw"), staged)
	device, err := b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(devices, "publish/raw/uid-1"), device)
	to, err := os.Readlink(filepath.Join(b.host.Root(), "pods/uid-1/volumeDevices/kubernetes.io~csi/raw"))
	require.NoError(t, err)
	require.Equal(t, device, to)
	capability := &csipb.VolumeCapability{
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}},
	}
	attached := map[string]string{"device": "7"}
	requireRequests(t, []proto.Message{
		&csipb.NodeStageVolumeRequest{
			VolumeId: "handle-of-raw", PublishContext: attached, StagingTargetPath: staged, VolumeCapability: capability,
			Secrets: map[string]string{"user": "s"}, VolumeContext: map[string]string{"tier": "gold"},
		},
		&csipb.NodePublishVolumeRequest{
			VolumeId: "handle-of-raw", PublishContext: attached, StagingTargetPath: staged, TargetPath: device, VolumeCapability: capability,
			VolumeContext: map[string]string{
				"tier": "gold", podNameKey: "web", podNamespaceKey: "ns", podUIDKey: "uid-1", serviceAccountKey: "sa", ephemeralKey: "false",
			},
		},
	}, b.driver.transcript())
	data, err := b.plugin.files.read(filepath.Join(devices, "raw/data/vol_data.json"))
	require.NoError(t, err)
	data.Call = nil
	require.Equal(t, voldata.Data{
		SpecVolumeID: "raw", VolumeHandle: "handle-of-raw", DriverName: driverOne, NodeName: "node-1",
		AttachmentID: attachmentName(driverOne, "handle-of-raw", "node-1"),
	}, data)

	_, err = b.mapper("uid-2").MapPodDevice(t.Context(), b.paths)
	require.NoError(t, err)
	require.NoError(t, b.unmapper("uid-1").UnmapPodDevice(t.Context()))
	require.NoFileExists(t, b.link("uid-1"))
	err = b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths)
	require.ErrorIs(t, err, errMapped)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	b.restart()
	found, err := b.plugin.ConstructBlockVolumeSpec(t.Context(), "uid-2", "raw", b.link("uid-2"))
	require.NoError(t, err)
	require.True(t, found.Spec.IsBlock())
	require.Equal(t, "handle-of-raw", found.Spec.PersistentVolume.Spec.CSI.VolumeHandle)
	require.Equal(t, []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}, found.Spec.PersistentVolume.Spec.AccessModes)
	require.Equal(t, staged, found.StagingPath)
	for range 2 {
		require.NoError(t, b.unmapper("uid-2").UnmapPodDevice(t.Context()))
	}
	for range 2 {
		require.NoError(t, b.unmapper("uid-2").TearDownDevice(t.Context(), b.paths))
	}
	require.Equal(t, []string{"NodePublishVolume", "NodeUnpublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}, b.driver.methods())
	require.Equal(t, []string{
		"plugins", "plugins/kubernetes.io", "plugins/kubernetes.io/csi", "plugins/kubernetes.io/csi/volumeDevices",
		"plugins/kubernetes.io/csi/volumeDevices/publish", "plugins/kubernetes.io/csi/volumeDevices/staging",
		"pods", "pods/uid-1", "pods/uid-1/volumeDevices", "pods/uid-1/volumeDevices/kubernetes.io~csi",
		"pods/uid-2", "pods/uid-2/volumeDevices", "pods/uid-2/volumeDevices/kubernetes.io~csi",
	}, b.files())
}

// TestBlockFailures: a refused call leaves nothing, and one whose outcome is unknown leaves the link and
// the files.
func TestBlockFailures(t *testing.T) {
	b := newBlockNode(t, capStage)
	b.driver.before = failWith("NodeStageVolume", codes.Internal)
	_, err := b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.Equal(t, volume.Final, volume.KindOf(err))
	require.Empty(t, b.files())
	b.driver.set(func(d *fakeDriver) { d.before = failWith("NodePublishVolume", codes.Internal) })
	_, err = b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	before := b.files()
	_, err = b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
	require.Equal(t, volume.Final, volume.KindOf(err))
	require.Equal(t, before, b.files())
	b.driver.set(func(d *fakeDriver) { d.before = failWith("NodePublishVolume", codes.Aborted) })
	_, err = b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	require.ErrorIs(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths), errMapped, "it may be published")
	b.driver.set(func(d *fakeDriver) { d.before = nil })
	b.restart()
	_, err = b.plugin.ConstructBlockVolumeSpec(t.Context(), "uid-1", "raw", b.link("uid-1"))
	require.NoError(t, err)
	require.NoError(t, b.unmapper("uid-1").UnmapPodDevice(t.Context()))
	require.NoError(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths))
}

// TestBlockStagingFails: a device is not published while its staging has failed, or may have: it is staged first.
func TestBlockStagingFails(t *testing.T) {
	for _, code := range []codes.Code{codes.OutOfRange, codes.Aborted} {
		b := newBlockNode(t)
		_, err := b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
		require.NoError(t, err)
		b.driver.set(func(d *fakeDriver) { d.caps, d.before = []rpc{capStage}, failWith("NodeStageVolume", code) })
		b.registration++
		for range 2 {
			_, err = b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
			require.Error(t, err)
			b.restart()
		}
		b.driver.set(func(d *fakeDriver) { d.before = nil })
		for range 2 {
			_, err = b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
			require.NoError(t, err)
			b.restart()
		}
		require.Equal(t, []string{"NodeStageVolume", "NodeStageVolume", "NodeStageVolume", "NodePublishVolume", "NodePublishVolume"}, b.driver.methods())
	}
}

// TestBlockInterruptedWrite: the temporary file of a write that was interrupted before the call does not
// keep the directories.
func TestBlockInterruptedWrite(t *testing.T) {
	b := newBlockNode(t, capStage)
	_, err := b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	dir := filepath.Join(filepath.Dir(b.paths.GlobalMapPath), "data")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "publish-uid-1.json.tmp"), []byte("torn"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vol_data.json.tmp"), []byte("torn"), 0o600))
	require.NoError(t, b.unmapper("uid-1").UnmapPodDevice(t.Context()))
	require.NoError(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths))
	require.NoDirExists(t, dir)
}

// TestBlockBrokenFile: a device whose file is broken stays staged until its specification repairs the file.
func TestBlockBrokenFile(t *testing.T) {
	b := newBlockNode(t, capStage)
	_, err := b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	file := filepath.Join(filepath.Dir(b.paths.GlobalMapPath), "data/vol_data.json")
	require.NoError(t, os.Truncate(file, 0))
	b.restart()
	err = b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths)
	require.ErrorIs(t, err, ErrUnknownVolume)
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.FileExists(t, file)
	_, err = b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	require.NoError(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths))
	require.Equal(t, []string{"NodeStageVolume", "NodeStageVolume", "NodeUnstageVolume"}, b.driver.methods())
}

// TestBlockLeftFile: the empty file that a driver has left at the path of a device is removed, and a file with
// content stays.
func TestBlockLeftFile(t *testing.T) {
	b := newBlockNode(t, capStage)
	device, err := b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
	require.NoError(t, err)
	leave := func(text string) {
		b.driver.set(func(d *fakeDriver) {
			d.after = func(request proto.Message) error {
				if methodOf(request) == "NodeUnpublishVolume" {
					return os.WriteFile(device, []byte(text), 0o600)
				}
				return nil
			}
		})
	}
	leave("precious")
	require.ErrorIs(t, b.unmapper("uid-1").UnmapPodDevice(t.Context()), volume.ErrUncertain)
	require.FileExists(t, device)
	leave("")
	require.NoError(t, b.unmapper("uid-1").UnmapPodDevice(t.Context()))
	require.NoFileExists(t, device)
	require.NoError(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths))

	b.driver.set(func(d *fakeDriver) { d.after = failWith("NodePublishVolume", codes.Internal) })
	_, err = b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
	require.Equal(t, volume.Final, volume.KindOf(err), "%v", err)
	require.NoFileExists(t, b.link("uid-1"))
	require.NoFileExists(t, device)
}

// TestBlockWithoutLink: a device that a kubelet has published and not linked is unpublished.
func TestBlockWithoutLink(t *testing.T) {
	b := newBlockNode(t, capStage)
	device, err := b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
	require.NoError(t, err)
	require.NoError(t, os.Remove(b.link("uid-1")))
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(b.paths.GlobalMapPath), "data/publish-uid-1.json")))
	b.driver.transcript()
	b.restart()
	require.ErrorIs(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths), errMapped)
	require.NoError(t, b.unmapper("uid-1").UnmapPodDevice(t.Context()))
	require.NoFileExists(t, device)
	require.NoError(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths))
	require.Equal(t, []string{"NodeUnpublishVolume", "NodeUnstageVolume"}, b.driver.methods())
}

// TestBlockStray: an entry in place of the link, and a link to another path, stay.
func TestBlockStray(t *testing.T) {
	b := newBlockNode(t)
	link := b.link("uid-1")
	require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o750))
	for _, stray := range []func() error{
		func() error { return os.WriteFile(link, []byte("precious"), 0o600) },
		func() error { return os.Symlink("/etc", link) },
	} {
		require.NoError(t, stray())
		_, err := b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
		require.Empty(t, b.driver.methods())
		_, err = b.plugin.ConstructBlockVolumeSpec(t.Context(), "uid-1", "raw", link)
		require.ErrorIs(t, err, volume.ErrUncertain)
		require.NoError(t, os.Remove(link))
	}
}

// TestBlockOfKubelet: a device that a kubelet has mapped is recovered, repeated and taken down.
func TestBlockOfKubelet(t *testing.T) {
	b := newBlockNode(t, capStage)
	root := b.host.Root()
	devices := root + "/plugins/kubernetes.io/csi/volumeDevices"
	for _, dir := range []string{devices + "/raw/data", devices + "/raw/dev", devices + "/staging/raw", devices + "/publish/raw", root + "/pods/uid-1/volumeDevices/kubernetes.io~csi"} {
		require.NoError(t, os.MkdirAll(dir, 0o750))
	}
	require.NoError(t, os.WriteFile(devices+"/raw/data/vol_data.json", []byte(`{"attachmentID":"csi-1","driverName":"one.example.com","nodeName":"node-1","specVolID":"raw","volumeHandle":"handle-of-raw"}`), 0o644))
	require.NoError(t, os.WriteFile(devices+"/publish/raw/uid-1", nil, 0o600))
	require.NoError(t, os.Symlink(devices+"/publish/raw/uid-1", b.link("uid-1")))
	require.NoError(t, os.WriteFile(devices+"/raw/dev/uid-1", nil, 0o600))
	require.NoError(t, b.mounter.Mount(t.Context(), mount.Request{Source: devices + "/publish/raw/uid-1", Target: devices + "/raw/dev/uid-1"}))
	found, err := b.plugin.ConstructBlockVolumeSpec(t.Context(), "uid-1", "raw", b.link("uid-1"))
	require.NoError(t, err)
	require.Equal(t, "handle-of-raw", found.Spec.PersistentVolume.Spec.CSI.VolumeHandle)
	_, err = b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	_, err = b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
	require.NoError(t, err)
	b.restart()
	require.NoError(t, b.unmapper("uid-1").UnmapPodDevice(t.Context()))
	require.NoFileExists(t, devices+"/raw/dev/uid-1", "the kubelet's bind mount")
	require.NoError(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths))
	require.Equal(t, []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}, b.driver.methods())
	require.NoDirExists(t, devices+"/raw")
	require.NoDirExists(t, devices+"/staging/raw")
}
