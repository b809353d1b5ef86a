package csi

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	capStage      = csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
	capStats      = csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS
	capCondition  = condition.Capability
	capExpand     = csipb.NodeServiceCapability_RPC_EXPAND_VOLUME
	capSingleNode = csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
	capMountGroup = csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
)

func ptr[T any](v T) *T { return &v }

// TestPersistentVolume: the calls for a persistent volume have every argument, the paths and files are
// those of a kubelet, and afterwards nothing is left.
func TestPersistentVolume(t *testing.T) {
	n := newFakeNode(t, capStage, capMountGroup, capSingleNode)
	n.withObject(storagev1.CSIDriverSpec{PodInfoOnMount: ptr(true), SELinuxMount: ptr(true), TokenRequests: []storagev1.TokenRequest{{Audience: "aud"}}})
	n.secrets["kube/stage"] = map[string][]byte{"user": []byte("s")}
	n.secrets["kube/publish"] = map[string][]byte{"user": []byte("p")}
	spec := n.pv("data")
	spec.PersistentVolume.Spec.MountOptions = []string{"noatime"}
	spec.PersistentVolume.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "kube", Name: "stage"}
	spec.PersistentVolume.Spec.CSI.NodePublishSecretRef = &v1.SecretReference{Namespace: "kube", Name: "publish"}
	label := "system_u:object_r:container_file_t:s0:c15,c25"
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{FsGroup: ptr(int64(7)), SELinuxLabel: label}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{FsGroup: ptr(int64(7)), SELinuxLabel: label}))

	handle := "handle-of-data"
	staging := filepath.Join(n.host.Root(), "plugins/kubernetes.io/csi", driverOne, hash(handle), "globalmount")
	target := filepath.Join(n.host.Root(), "pods/uid-1/volumes/kubernetes.io~csi/data/mount")
	capability := &csipb.VolumeCapability{
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{
			FsType: "ext4", MountFlags: []string{"noatime", `context="` + label + `"`}, VolumeMountGroup: "7",
		}},
	}
	requireRequests(t, []proto.Message{
		&csipb.NodeStageVolumeRequest{
			VolumeId: handle, PublishContext: map[string]string{"device": "7"}, StagingTargetPath: staging,
			VolumeCapability: capability, Secrets: map[string]string{"user": "s"}, VolumeContext: map[string]string{"tier": "gold"},
		},
		&csipb.NodePublishVolumeRequest{
			VolumeId: handle, PublishContext: map[string]string{"device": "7"}, StagingTargetPath: staging, TargetPath: target,
			VolumeCapability: capability, Secrets: map[string]string{"user": "p"},
			VolumeContext: map[string]string{
				"tier":       "gold",
				podNameKey:   "web",
				podUIDKey:    "uid-1",
				ephemeralKey: "false",

				podNamespaceKey: "ns", serviceAccountKey: "sa",
				tokensKey: `{"aud":{"token":"tokaud","expirationTimestamp":null}}`,
			},
		},
	}, n.driver.transcript())

	data, err := n.plugin.files.read(filepath.Join(filepath.Dir(target), "vol_data.json"))
	require.NoError(t, err)
	require.NotNil(t, data.Call)
	data.Call = nil
	text, err := data.Text()
	require.NoError(t, err)
	require.JSONEq(t, `{"specVolID":"data","volumeHandle":"handle-of-data","driverName":"one.example.com","nodeName":"node-1",
		"volumeLifecycleMode":"Persistent","seLinuxMountContext":"system_u:object_r:container_file_t:s0:c15,c25",
		"attachmentID":"csi-`+hash(handle+driverOne+"node-1")+`"}`, string(text))
	data, err = n.plugin.files.read(filepath.Join(filepath.Dir(staging), "vol_data.json"))
	require.NoError(t, err)
	require.Equal(t, [3]string{"", handle, driverOne}, [3]string{data.SpecVolumeID, data.VolumeHandle, data.DriverName})

	require.NoError(t, n.tearDown("data"))
	require.NoError(t, n.unstage(staging))
	requireRequests(t, []proto.Message{
		&csipb.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: target},
		&csipb.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: staging},
	}, n.driver.transcript())
	require.Equal(t, []string{
		"plugins", "plugins/kubernetes.io", "plugins/kubernetes.io/csi", "plugins/kubernetes.io/csi/" + driverOne,
		"pods", "pods/uid-1", "pods/uid-1/volumes", "pods/uid-1/volumes/kubernetes.io~csi",
	}, n.files())
}

// TestInlineVolume: an inline volume is not staged, and has its Secret in the namespace of the pod.
func TestInlineVolume(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := inlineSpec("scratch")
	spec.Volume.CSI.NodePublishSecretRef = &v1.LocalObjectReference{Name: "key"}
	n.secrets["ns/key"] = map[string][]byte{"k": []byte("v")}
	require.ErrorContains(t, n.setUp(spec, volume.MounterArgs{}), "lifecycle mode Ephemeral", "without an object only persistent volumes")
	n.withObject(storagev1.CSIDriverSpec{PodInfoOnMount: ptr(true), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Ephemeral"}})
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	handle := "csi-" + hash("uid-1scratch")
	target := filepath.Join(n.host.Root(), "pods/uid-1/volumes/kubernetes.io~csi/scratch/mount")
	requireRequests(t, []proto.Message{&csipb.NodePublishVolumeRequest{
		VolumeId: handle, TargetPath: target, Secrets: map[string]string{"k": "v"},
		VolumeCapability: &csipb.VolumeCapability{
			AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
		},
		VolumeContext: map[string]string{
			"tier": "gold", podNameKey: "web", podNamespaceKey: "ns", podUIDKey: "uid-1", serviceAccountKey: "sa", ephemeralKey: "true",
		},
	}}, n.driver.transcript())
	found, err := n.plugin.ConstructVolumeSpec(t.Context(), "scratch", filepath.Dir(target))
	require.NoError(t, err)
	require.Equal(t, driverOne, found.Spec.Volume.CSI.Driver)
	require.NoError(t, n.tearDown("scratch"))
	requireRequests(t, []proto.Message{&csipb.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: target}}, n.driver.transcript())
	n.withObject(storagev1.CSIDriverSpec{VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Ephemeral"}})
	err = n.setUp(n.pv("data"), volume.MounterArgs{})
	require.ErrorContains(t, err, "lifecycle mode Persistent")
	require.Equal(t, volume.Transient, volume.KindOf(err))
}

// TestWithoutStaging: a driver without the capability is not called to stage, and gets no staging path.
func TestWithoutStaging(t *testing.T) {
	n := newFakeNode(t)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.Empty(t, n.files(), "nothing is staged")
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	all := n.driver.transcript()
	require.Len(t, all, 1)
	require.Empty(t, all[0].(*csipb.NodePublishVolumeRequest).StagingTargetPath)
	require.NoError(t, n.tearDown("data"))
	require.NoError(t, n.unstage(n.stagePath(spec)))
	require.Equal(t, []string{"NodeUnpublishVolume"}, n.driver.methods())
}

// TestFileBeforeCall: the files exist, complete, when the driver is called.
func TestFileBeforeCall(t *testing.T) {
	n := newFakeNode(t, capStage)
	n.driver.before = func(request proto.Message) error {
		file := ""
		switch r := request.(type) {
		case *csipb.NodeStageVolumeRequest:
			file = filepath.Join(filepath.Dir(r.StagingTargetPath), "vol_data.json")
		case *csipb.NodePublishVolumeRequest:
			file = filepath.Join(filepath.Dir(r.TargetPath), "vol_data.json")
			_, err := os.Lstat(r.TargetPath)
			if err == nil {
				t.Error("the target is the driver's to create")
			}
		default:
			return nil
		}
		data, err := n.plugin.files.read(file)
		if err != nil || data.VolumeHandle != "handle-of-data" || data.Call == nil {
			t.Errorf("%s: %v %v", file, data, err)
		}
		return nil
	}
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
}

// TestNotStaged: a volume that has to be staged is not published before.
func TestNotStaged(t *testing.T) {
	n := newFakeNode(t, capStage)
	err := n.setUp(n.pv("data"), volume.MounterArgs{})
	require.ErrorIs(t, err, volume.ErrNotMounted)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.Empty(t, n.driver.methods())
	require.Empty(t, n.files())
}

// TestFinalFailure: after a final error of a first call nothing is left, and the next call may have
// other arguments.
func TestFinalFailure(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.NotFound, codes.Internal, codes.AlreadyExists, codes.FailedPrecondition, codes.Unknown} {
		n := newFakeNode(t, capStage)
		spec := n.pv("data")
		n.driver.before = failWith("NodeStageVolume", code)
		err := n.stage(spec, volume.DeviceMounterArgs{})
		require.NotEqual(t, volume.Uncertain, volume.KindOf(err), "%v", err)
		require.Equal(t, code == codes.AlreadyExists, errorsIs(err, volume.ErrAlreadyMounted), "%v", err)
		require.Empty(t, n.files())
		n.driver.set(func(d *fakeDriver) { d.before = failWith("NodePublishVolume", code) })
		require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
		before := n.files()
		require.Error(t, n.setUp(spec, volume.MounterArgs{}))
		require.Equal(t, before, n.files())
	}
}

// TestUnknownOutcome: after an unknown outcome the same call with the same arguments is repeated, also
// after a restart and with another specification, until the outcome is known.
func TestUnknownOutcome(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted} {
		for _, method := range []string{"NodeStageVolume", "NodePublishVolume"} {
			t.Run(method+" "+code.String(), func(t *testing.T) { testUnknownOutcome(t, method, code) })
		}
	}
}

func testUnknownOutcome(t *testing.T, method string, code codes.Code) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	n.secrets["ns/s"] = map[string][]byte{"k": []byte("old")}
	spec.PersistentVolume.Spec.CSI.NodePublishSecretRef = &v1.SecretReference{Namespace: "ns", Name: "s"}
	spec.PersistentVolume.Spec.CSI.NodeStageSecretRef = spec.PersistentVolume.Spec.CSI.NodePublishSecretRef
	up := func(spec *volume.Spec) error {
		if err := n.stage(spec, volume.DeviceMounterArgs{}); err != nil {
			return err
		}
		return n.setUp(spec, volume.MounterArgs{})
	}
	n.driver.set(func(d *fakeDriver) { d.after = failWith(method, code) })
	require.Equal(t, volume.Uncertain, volume.KindOf(up(spec)))
	first := last(n.driver.transcript())
	n.restart()
	n.mu.Lock()
	n.attachments[volumeName(driverOne, "handle-of-data")] = map[string]string{"device": "8"}
	n.secrets["ns/s"]["k"] = []byte("new")
	n.mu.Unlock()
	other := volume.NewSpecFromPersistentVolume(spec.PersistentVolume.DeepCopy(), false)
	other.PersistentVolume.Spec.MountOptions = []string{"noatime"}
	repeat := func() error { return n.stage(other, volume.DeviceMounterArgs{}) }
	if method == "NodePublishVolume" {
		repeat = func() error { return n.setUp(other, volume.MounterArgs{IsRemount: true}) }
	}
	require.Equal(t, volume.Uncertain, volume.KindOf(repeat()))
	again := last(n.driver.transcript())
	setSecrets(first.(upRequest), map[string]string{"k": "new"}) // secrets are read again
	requireRequests(t, []proto.Message{first}, []proto.Message{again})
	n.driver.set(func(d *fakeDriver) { d.after = nil })
	require.ErrorIs(t, repeat(), volume.ErrAlreadyMounted, "the outcome is known: other options")
	require.NoError(t, up(spec))
	require.NoError(t, n.tearDown("data"))
	require.NoError(t, n.unstage(n.stagePath(spec)))
	n.driver.transcript()
	require.NoError(t, up(other))
	require.Equal(t, []string{"noatime"}, last(n.driver.transcript()).(upRequest).GetVolumeCapability().GetMount().MountFlags)
}

func last(all []proto.Message) proto.Message { return all[len(all)-1] }

// TestRefusedRepetition: once the driver has refused the repetition of a call whose outcome was unknown,
// the next call has the arguments of the specification.
func TestRefusedRepetition(t *testing.T) {
	n := newFakeNode(t)
	spec := n.pv("data")
	spec.PersistentVolume.Spec.MountOptions = []string{"wrong"}
	n.driver.set(func(d *fakeDriver) { d.before = failWith("NodePublishVolume", codes.DeadlineExceeded) })
	require.Equal(t, volume.Uncertain, volume.KindOf(n.setUp(spec, volume.MounterArgs{})))
	n.driver.set(func(d *fakeDriver) { d.before = failWith("NodePublishVolume", codes.InvalidArgument) })
	spec.PersistentVolume.Spec.MountOptions = nil
	require.Equal(t, volume.Final, volume.KindOf(n.setUp(spec, volume.MounterArgs{IsRemount: true})))
	n.driver.set(func(d *fakeDriver) { d.before = nil })
	n.driver.transcript()
	n.restart()
	require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
	require.Empty(t, last(n.driver.transcript()).(upRequest).GetVolumeCapability().GetMount().MountFlags)
}

// TestInterruptedTearDown: a tear-down whose outcome is unknown is repeated before the volume is brought
// up again, also after a restart.
func TestInterruptedTearDown(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	n.driver.set(func(d *fakeDriver) { d.after = failWith("NodeUnpublishVolume", codes.DeadlineExceeded) })
	require.Equal(t, volume.Uncertain, volume.KindOf(n.tearDown("data")))
	n.driver.set(func(d *fakeDriver) { d.after = nil })
	n.driver.transcript()
	n.restart()
	require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
	require.Equal(t, []string{"NodeUnpublishVolume", "NodePublishVolume"}, n.driver.methods())
	require.NoError(t, n.tearDown("data"))
	n.driver.set(func(d *fakeDriver) { d.after = failWith("NodeUnstageVolume", codes.Aborted) })
	require.Equal(t, volume.Uncertain, volume.KindOf(n.unstage(n.stagePath(spec))))
	n.driver.set(func(d *fakeDriver) { d.after = nil })
	n.driver.transcript()
	require.ErrorIs(t, n.setUp(spec, volume.MounterArgs{}), volume.ErrNotMounted, "it is being unstaged")
	n.restart()
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.Equal(t, []string{"NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume"}, n.driver.methods())
}

// TestAfterReboot: arguments of calls before the last start of the machine are not repeated.
func TestAfterReboot(t *testing.T) {
	n := newFakeNode(t)
	spec := n.pv("data")
	n.driver.set(func(d *fakeDriver) { d.before = failWith("NodePublishVolume", codes.DeadlineExceeded) })
	require.Error(t, n.setUp(spec, volume.MounterArgs{}))
	n.driver.set(func(d *fakeDriver) { d.before = nil })
	n.restart()
	n.plugin.boot = "the next"
	n.mu.Lock()
	n.attachments[volumeName(driverOne, "handle-of-data")] = map[string]string{"device": "8"}
	n.mu.Unlock()
	n.driver.transcript()
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.Equal(t, "8", last(n.driver.transcript()).(*csipb.NodePublishVolumeRequest).PublishContext["device"])
}

// TestStagedBeforeReboot: a volume that was staged before the last start of the machine is not published.
func TestStagedBeforeReboot(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	n.restart()
	n.plugin.boot = "the next"
	n.driver.transcript()
	require.ErrorIs(t, n.setUp(spec, volume.MounterArgs{}), volume.ErrNotMounted)
	require.Empty(t, n.driver.methods())
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
}

// TestRepublish: a driver with requiresRepublish gets fresh tokens, and a failed call leaves the volume
// and its directory.
func TestRepublish(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.Internal, codes.DeadlineExceeded, codes.PermissionDenied} {
		n := newFakeNode(t)
		n.withObject(storagev1.CSIDriverSpec{RequiresRepublish: ptr(true), TokenRequests: []storagev1.TokenRequest{{}}})
		spec := n.pv("data")
		require.False(t, n.plugin.RequiresRemount(spec), "the object has not been read")
		can, err := n.plugin.CanAttach(t.Context(), spec)
		require.NoError(t, err)
		require.True(t, can)
		require.True(t, n.plugin.RequiresRemount(spec))
		require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
		n.mu.Lock()
		n.token = "fresh"
		n.mu.Unlock()
		n.driver.transcript()
		require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
		require.Contains(t, last(n.driver.transcript()).(upRequest).GetVolumeContext()[tokensKey], "fresh")
		before := n.files()
		n.driver.set(func(d *fakeDriver) { d.before = failWith("NodePublishVolume", code) })
		for range 2 {
			require.Error(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
			require.Error(t, n.setUp(spec, volume.MounterArgs{}))
			require.Equal(t, before, n.files())
		}
		mounted, err := n.mounter.IsMountPoint(t.Context(), n.newMounter(spec).GetPath())
		require.NoError(t, err)
		require.True(t, mounted)
		require.NotContains(t, n.driver.methods(), "NodeUnpublishVolume")
	}
}

// TestTokensInSecrets: tokens are in the secrets if the object says so.
func TestTokensInSecrets(t *testing.T) {
	n := newFakeNode(t)
	request := &csipb.NodePublishVolumeRequest{}
	s, err := sourceOf(n.pv("data"))
	require.NoError(t, err)
	policy := driverPolicy{tokens: []storagev1.TokenRequest{{}}, tokensInSecrets: true, noAttach: true}
	require.NoError(t, n.plugin.addContext(t.Context(), request, s, n.pod, policy))
	require.Contains(t, request.Secrets[tokensKey], "tok")
	require.NotContains(t, request.VolumeContext, tokensKey)
	type later struct{ ServiceAccountTokenInSecrets *bool }
	require.True(t, tokensInSecrets(&later{ptr(true)}))
	require.False(t, tokensInSecrets(&later{}))
	require.False(t, tokensInSecrets(&storagev1.CSIDriverSpec{}))
}

// TestRepublishDirectory: a failed call leaves also the directory and the file of a volume that is no
// mount, of a driver that writes files.
func TestRepublishDirectory(t *testing.T) {
	n := newFakeNode(t)
	n.driver.mounter = directories{n.mounter}
	spec := n.pv("data")
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	before := n.files()
	n.driver.set(func(d *fakeDriver) { d.before = failWith("NodePublishVolume", codes.Internal) })
	for _, isRemount := range []bool{true, false} {
		require.Equal(t, volume.Final, volume.KindOf(n.setUp(spec, volume.MounterArgs{IsRemount: isRemount})))
		require.Equal(t, before, n.files())
	}
	// After a restart the file may be missing, and the volume in use.
	require.NoError(t, os.Remove(n.podFile("data")))
	require.Error(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
	require.Equal(t, before, n.files())
}

// directories mounts nothing.
type directories struct{ mount.Interface }

func (directories) Mount(context.Context, mount.Request) error { return nil }
