package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/internal/stageuse"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	storagev1 "k8s.io/api/storage/v1"
)

// leaveToKubelet replaces the file of a pod's volume by that of a kubelet.
func (n *fakeNode) leaveToKubelet(name string) {
	n.t.Helper()
	require.NoError(n.t, os.WriteFile(n.podFile(name), []byte(`{"driverName":"one.example.com","nodeName":"node-1","specVolID":"`+name+`","volumeHandle":"handle-of-`+name+`","volumeLifecycleMode":"Persistent"}`), 0o644))
}

// publishRequest returns the only request since the last call, which publishes.
func (n *fakeNode) publishRequest() *csipb.NodePublishVolumeRequest {
	n.t.Helper()
	requests := n.driver.transcript()
	require.Len(n.t, requests, 1)
	require.IsType(n.t, new(csipb.NodePublishVolumeRequest), requests[0])
	return requests[0].(*csipb.NodePublishVolumeRequest)
}

// TestTakenOverArguments: the call for a volume that a kubelet has published is repeated with the arguments of
// the kubelet, also after a restart; a new call has the plugin's own.
func TestTakenOverArguments(t *testing.T) {
	n := newFakeNode(t)
	spec := n.pv("data")
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	first := n.publishRequest()
	n.leaveToKubelet("data")
	spec.PersistentVolume.Spec.CSI.ReadOnly = true
	for range 3 {
		n.restart()
		require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
		require.True(t, proto.Equal(first, n.publishRequest()), "a kubelet publishes it writable")
	}
	require.NoError(t, n.tearDown("data"))
	n.driver.transcript()
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.True(t, n.publishRequest().Readonly)
	require.NoError(t, n.tearDown("data"))

	// A kubelet has written the file and published nothing.
	require.NoError(t, os.MkdirAll(filepath.Dir(n.podFile("data")), 0o750))
	n.leaveToKubelet("data")
	n.driver.transcript()
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.True(t, n.publishRequest().Readonly)
}

// mountDevice mounts a device at a path, as a driver does.
func (b *blockNode) mountDevice(at string) {
	b.t.Helper()
	source := filepath.Join(b.driver.backing, "device")
	for _, file := range []string{source, at} {
		require.NoError(b.t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(b.t, os.WriteFile(file, nil, 0o600))
	}
	require.NoError(b.t, b.mounter.Mount(b.t.Context(), mount.Request{Source: source, Target: at}))
}

// TestDeviceOfUnknownProgram: a device is published with the plugin's own arguments if nothing shows that a
// kubelet has published it: the empty file on which a driver had mounted a device is left after a start of the
// system, and a lost file of the volume may have been one of the plugin. A volume that is read-only stays so.
func TestDeviceOfUnknownProgram(t *testing.T) {
	const ofKubelet = `{"driverName":"one.example.com","nodeName":"node-1","specVolID":"raw","volumeHandle":"handle-of-raw"}`
	for name, test := range map[string]struct {
		text    string // of the file
		mounted bool
	}{
		"empty file":           {ofKubelet, false},
		"empty file, and lost": {"", false},
		"mounted, and lost":    {"", true},
	} {
		for _, caps := range [][]rpc{nil, {capStage}} {
			t.Run(fmt.Sprintf("%s/%v", name, caps), func(t *testing.T) {
				b := newBlockNode(t, caps...)
				b.spec.PersistentVolume.Spec.CSI.ReadOnly = true
				devices := b.host.Root() + "/plugins/kubernetes.io/csi/volumeDevices"
				file, device := devices+"/raw/data/vol_data.json", devices+"/publish/raw/uid-1"
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
				require.NoError(t, os.WriteFile(file, []byte(test.text), 0o644))
				b.mountDevice(device)
				if !test.mounted {
					require.NoError(t, b.mounter.Unmount(t.Context(), device))
				}
				for range 2 {
					_, err := b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
					require.NoError(t, err)
					b.restart()
				}
				b.driver.transcript()
				for range 2 {
					_, err := b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
					require.NoError(t, err)
					require.True(t, b.publishRequest().Readonly)
					b.restart()
				}
			})
		}
	}
}

// TestTakenOverDevice: the call for a device that a kubelet has published is repeated with the arguments of the
// kubelet, which has a staging path for every driver. A failure leaves the device.
func TestTakenOverDevice(t *testing.T) {
	b := newBlockNode(t)
	b.spec.PersistentVolume.Spec.CSI.ReadOnly = true
	devices := b.host.Root() + "/plugins/kubernetes.io/csi/volumeDevices"
	for _, dir := range []string{devices + "/raw/data", devices + "/publish/raw"} {
		require.NoError(t, os.MkdirAll(dir, 0o750))
	}
	require.NoError(t, os.WriteFile(devices+"/raw/data/vol_data.json", []byte(`{"driverName":"one.example.com","nodeName":"node-1","specVolID":"raw","volumeHandle":"handle-of-raw"}`), 0o644))
	device := devices + "/publish/raw/uid-1"
	b.mountDevice(device)

	b.driver.before = failWith("NodePublishVolume", codes.Internal)
	_, err := b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
	require.Equal(t, volume.Final, volume.KindOf(err), "%v", err)
	require.FileExists(t, device)
	b.driver.set(func(d *fakeDriver) { d.before = nil })
	b.driver.transcript()
	for range 2 {
		_, err := b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
		require.NoError(t, err)
		request := b.publishRequest()
		require.Equal(t, devices+"/staging/raw", request.StagingTargetPath)
		require.False(t, request.Readonly)
		b.restart()
	}
	_, err = b.mapper("uid-2").MapPodDevice(t.Context(), b.paths)
	require.NoError(t, err)
	request := b.publishRequest()
	require.Empty(t, request.StagingTargetPath)
	require.True(t, request.Readonly)
}

// TestGroupOfTakenOver: the group is applied to a volume that a kubelet has published without applying it, and
// not again to one whose root has the group.
func TestGroupOfTakenOver(t *testing.T) {
	n := newFakeNode(t)
	n.withObject(storagev1.CSIDriverSpec{FSGroupPolicy: ptr(storagev1.FileFSGroupPolicy)})
	spec := n.pv("data")
	args := volume.MounterArgs{FsGroup: ptr(int64(os.Getegid())), IsRemount: true}
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	root := filepath.Dir(n.podFile("data")) + "/mount"
	require.NoError(t, os.WriteFile(root+"/file", nil, 0o600))
	fileMode := func() os.FileMode {
		info, err := os.Stat(root + "/file")
		require.NoError(t, err)
		return info.Mode()
	}
	n.leaveToKubelet("data")
	require.NoError(t, n.setUp(spec, args))
	require.Equal(t, os.ModeDir|os.ModeSetgid|0o770, n.publishedMode("data"))
	require.Equal(t, os.FileMode(0o660), fileMode())

	require.NoError(t, os.Chmod(root+"/file", 0o600))
	n.leaveToKubelet("data")
	n.restart()
	require.NoError(t, n.setUp(spec, args))
	require.Equal(t, os.FileMode(0o600), fileMode(), "the pod may have changed it")
}

// noRefs hides that mounts have other mount points, as of a driver that publishes by other means.
type noRefs struct{ mount.Interface }

func (noRefs) MountRefs(context.Context, string) ([]string, error) { return nil, nil }

// refuseRestaging makes the driver answer ALREADY_EXISTS to every stage of a staged volume.
func (n *fakeNode) refuseRestaging() {
	staged := true
	n.driver.set(func(d *fakeDriver) {
		d.before = func(request proto.Message) error {
			switch request.(type) {
			case *csipb.NodeStageVolumeRequest:
				if staged {
					return status.Error(codes.AlreadyExists, "staged")
				}
				staged = true
			case *csipb.NodeUnstageVolumeRequest:
				staged = false
			}
			return nil
		}
	})
	n.driver.transcript()
}

// TestRefusedRestaging: a volume whose driver refuses to stage it again is unstaged and staged, if no pod has
// it. A published one stays.
func TestRefusedRestaging(t *testing.T) {
	n := newFakeNodeOn(t, noRefs{mounttest.NewFake(mount.Config{})}, capStage)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	n.restart()
	n.refuseRestaging()
	for range 2 {
		require.ErrorIs(t, n.stage(spec, volume.DeviceMounterArgs{}), volume.ErrAlreadyMounted)
		require.Equal(t, []string{"NodeStageVolume"}, n.driver.methods(), "a pod has it")
	}
	text, err := os.ReadFile(n.podFile("data"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(n.podFile("data"), nil, 0o600))
	require.ErrorIs(t, n.stage(spec, volume.DeviceMounterArgs{}), volume.ErrAlreadyMounted)
	require.Equal(t, []string{"NodeStageVolume"}, n.driver.methods(), "a pod may have it")
	require.NoError(t, os.WriteFile(n.podFile("data"), text, 0o600))
	require.NoError(t, n.tearDown("data"))

	other := filepath.Join(n.host.Root(), "other", "data")
	require.NoError(t, n.newMounter(spec).SetUpAt(t.Context(), other, volume.MounterArgs{}))
	n.driver.transcript()
	require.ErrorIs(t, n.stage(spec, volume.DeviceMounterArgs{}), volume.ErrAlreadyMounted)
	require.Equal(t, []string{"NodeStageVolume"}, n.driver.methods(), "it is published at another path")
	u, err := n.plugin.NewUnmounterAt(other)
	require.NoError(t, err)
	require.NoError(t, u.TearDown(t.Context()))

	n.driver.transcript()
	n.driver.set(func(d *fakeDriver) { d.after = failWith("NodeUnstageVolume", codes.Aborted) })
	require.Equal(t, volume.Uncertain, volume.KindOf(n.stage(spec, volume.DeviceMounterArgs{})))
	n.driver.set(func(d *fakeDriver) { d.after = nil })
	require.ErrorIs(t, n.setUp(spec, volume.MounterArgs{}), volume.ErrNotMounted)
	n.restart()
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.Equal(t, []string{"NodeStageVolume", "NodeUnstageVolume", "NodeUnstageVolume", "NodeStageVolume"}, n.driver.methods())
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.Equal(t, []string{"NodeStageVolume", "NodeUnstageVolume", "NodeStageVolume"}, n.driver.methods())
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
}

// refsHook calls a function when the other mount points of a mount are read.
type refsHook struct {
	mount.Interface
	call func()
}

func (h *refsHook) MountRefs(ctx context.Context, at string) ([]string, error) {
	refs, err := h.Interface.MountRefs(ctx, at)
	h.call()
	return refs, err
}

// TestPublishWhileRestaging: a pod that comes while the plugin finds the volume unpublished, in order to stage it
// again, waits.
func TestPublishWhileRestaging(t *testing.T) {
	kernel := &refsHook{Interface: mounttest.NewFake(mount.Config{})}
	n := newFakeNodeOn(t, kernel, capStage)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	n.restart()
	n.refuseRestaging()
	kernel.call = func() {
		err := n.setUp(spec, volume.MounterArgs{})
		require.ErrorIs(t, err, stageuse.ErrUnstaging)
		require.ErrorIs(t, err, volume.ErrNotMounted)
		require.Equal(t, volume.Transient, volume.KindOf(err))
	}
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.Equal(t, []string{"NodeStageVolume", "NodeUnstageVolume", "NodeStageVolume"}, n.driver.methods())
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.Equal(t, []string{"NodePublishVolume"}, n.driver.methods())
}

// TestUnstageWhilePublishing: a volume is not unstaged while a call publishes it, and not published while it is
// being unstaged.
func TestUnstageWhilePublishing(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	at := n.stagePath(spec)
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	n.driver.transcript()
	// during calls the plugin from a call of the driver. A call that is not refused waits for the end of that one.
	during := func(method string, call func(ctx context.Context) error) <-chan error {
		result := make(chan error, 1)
		n.driver.set(func(d *fakeDriver) {
			d.before = func(request proto.Message) error {
				if methodOf(request) == method {
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					defer cancel()
					result <- call(ctx)
				}
				return nil
			}
		})
		return result
	}
	unmounter, err := n.plugin.NewDeviceUnmounter()
	require.NoError(t, err)
	mounter := n.newMounter(spec)
	result := during("NodePublishVolume", func(ctx context.Context) error { return unmounter.UnmountDevice(ctx, at) })
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	refused := <-result
	require.ErrorIs(t, refused, stageuse.ErrPublishing)
	require.Equal(t, volume.Transient, volume.KindOf(refused))
	require.NoError(t, n.tearDown("data"))
	result = during("NodeUnstageVolume", func(ctx context.Context) error { return mounter.SetUp(ctx, volume.MounterArgs{}) })
	require.NoError(t, n.unstage(at))
	require.ErrorIs(t, <-result, stageuse.ErrUnstaging)
	require.Equal(t, []string{"NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}, n.driver.methods())
}

// TestRefusedRestagingOfMounted: a volume with another mount point stays, also if no file names it.
func TestRefusedRestagingOfMounted(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.NoError(t, os.Remove(n.podFile("data")))
	n.refuseRestaging()
	require.ErrorIs(t, n.stage(spec, volume.DeviceMounterArgs{}), volume.ErrAlreadyMounted)
	require.Equal(t, []string{"NodeStageVolume"}, n.driver.methods())
}

// TestRefusedFirstStaging: a volume that another program has staged stays.
func TestRefusedFirstStaging(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	n.refuseRestaging()
	require.ErrorIs(t, n.stage(spec, volume.DeviceMounterArgs{}), volume.ErrAlreadyMounted)
	require.Equal(t, []string{"NodeStageVolume"}, n.driver.methods())

	file := filepath.Join(filepath.Dir(n.stagePath(spec)), "vol_data.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(t, os.WriteFile(file, []byte(`{"driverName":"one.example.com","volumeHandle":"handle-of-data"}`), 0o644))
	require.ErrorIs(t, n.stage(spec, volume.DeviceMounterArgs{}), volume.ErrAlreadyMounted)
	require.Equal(t, []string{"NodeStageVolume"}, n.driver.methods(), "a kubelet has staged it")
}

// TestRefusedRestagingOfDevice is TestRefusedRestaging for a device.
func TestRefusedRestagingOfDevice(t *testing.T) {
	b := newBlockNode(t, capStage)
	_, err := b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	_, err = b.mapper("uid-1").MapPodDevice(t.Context(), b.paths)
	require.NoError(t, err)
	b.restart()
	b.refuseRestaging()
	_, err = b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	require.NoError(t, b.unmapper("uid-1").UnmapPodDevice(t.Context()))
	_, err = b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	require.Equal(t, []string{"NodeStageVolume", "NodeUnpublishVolume", "NodeStageVolume", "NodeUnstageVolume", "NodeStageVolume"}, b.driver.methods())
}

// TestStagingGained: the call for a volume that was published before its driver staged is repeated with its
// arguments.
func TestStagingGained(t *testing.T) {
	n := newFakeNode(t)
	spec := n.pv("data")
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	first := n.publishRequest()
	n.driver.set(func(d *fakeDriver) { d.caps = []rpc{capStage} })
	n.registration++
	n.restart()
	able, err := n.plugin.CanDeviceMount(t.Context(), spec)
	require.NoError(t, err)
	require.True(t, able)
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	n.driver.transcript()
	require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
	require.True(t, proto.Equal(first, n.publishRequest()))
	require.NoError(t, n.tearDown("data"))
	require.NoError(t, n.unstage(n.stagePath(spec)))
	require.Equal(t, []string{"NodeUnpublishVolume", "NodeUnstageVolume"}, n.driver.methods())
}

// loseStaging restarts the node with a driver that does not stage any more.
func (n *fakeNode) loseStaging() {
	n.driver.set(func(d *fakeDriver) { d.caps = nil })
	n.registration++
	n.restart()
}

// TestStagingLost: the call for a volume that was staged when its driver could is repeated with its arguments,
// and the volume is unstaged at the end.
func TestStagingLost(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	n.driver.transcript()
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	first := n.publishRequest()
	require.Equal(t, n.stagePath(spec), first.StagingTargetPath)
	n.loseStaging()
	canMount := func() bool {
		able, err := n.plugin.CanDeviceMount(t.Context(), spec)
		require.NoError(t, err)
		return able
	}
	require.True(t, canMount())
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
	require.True(t, proto.Equal(first, n.publishRequest()))
	require.NoError(t, n.tearDown("data"))
	require.NoError(t, n.unstage(n.stagePath(spec)))
	require.Equal(t, []string{"NodeUnpublishVolume", "NodeUnstageVolume"}, n.driver.methods())
	require.NoDirExists(t, filepath.Dir(n.stagePath(spec)))
	require.False(t, canMount())
}

// TestStagingLostOfKubelet: a kubelet records no call, so that the mount shows that the volume is staged. A file
// without a mount, which a kubelet has for each driver, needs no call.
func TestStagingLostOfKubelet(t *testing.T) {
	for _, mounted := range []bool{true, false} {
		n := newFakeNode(t, capStage)
		at := n.stagePath(n.pv("data"))
		require.NoError(t, n.stage(n.pv("data"), volume.DeviceMounterArgs{}))
		require.NoError(t, os.WriteFile(filepath.Dir(at)+"/vol_data.json", []byte(`{"driverName":"one.example.com","volumeHandle":"handle-of-data"}`), 0o644))
		n.loseStaging()
		want := []string{"NodeUnstageVolume"}
		if !mounted {
			require.NoError(t, n.mounter.Unmount(t.Context(), at))
			want = nil
		}
		n.driver.transcript()
		require.NoError(t, n.unstage(at))
		require.Equal(t, want, n.driver.methods())
		require.NoDirExists(t, filepath.Dir(at))
	}
}

// TestUnstageUnimplemented: a driver that has lost the capability may refuse the call. A mount that it has left
// stays, and keeps the file of the volume. With the capability the same answer is an error.
func TestUnstageUnimplemented(t *testing.T) {
	n := newFakeNode(t, capStage)
	at := n.stagePath(n.pv("data"))
	require.NoError(t, n.stage(n.pv("data"), volume.DeviceMounterArgs{}))
	n.driver.set(func(d *fakeDriver) { d.before = failWith("NodeUnstageVolume", codes.Unimplemented) })
	require.Equal(t, volume.Transient, volume.KindOf(n.unstage(at)))
	n.loseStaging()
	err := n.unstage(at)
	require.ErrorIs(t, err, errStillMounted)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	require.FileExists(t, filepath.Dir(at)+"/vol_data.json")
	require.NoError(t, n.mounter.Unmount(t.Context(), at))
	require.NoError(t, n.unstage(at))
	require.NoDirExists(t, filepath.Dir(at))
}

// TestInterruptedUnstageOfLost: a tear-down whose outcome is unknown is repeated before the pods get the volume, also
// if the driver has lost the capability to stage meanwhile.
func TestInterruptedUnstageOfLost(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	n.driver.set(func(d *fakeDriver) { d.before = failWith("NodeUnstageVolume", codes.Aborted) })
	require.Error(t, n.unstage(n.stagePath(spec)))
	n.loseStaging()
	n.driver.transcript()
	err := n.stage(spec, volume.DeviceMounterArgs{})
	require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
	n.driver.set(func(d *fakeDriver) { d.before = nil })
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.Equal(t, []string{"NodeUnstageVolume", "NodeUnstageVolume", "NodePublishVolume"}, n.driver.methods())
	require.NoError(t, n.tearDown("data"))
}

// TestStagingSkipped: a volume whose staging has an unknown outcome, and that a driver without the capability has
// not been asked to stage, is not published from the staging path once the driver stages again, before it is
// staged. The skipped call is repeated with its arguments, and undone at the end.
func TestStagingSkipped(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	n.driver.set(func(d *fakeDriver) { d.before = failWith("NodeStageVolume", codes.DeadlineExceeded) })
	require.Equal(t, volume.Uncertain, volume.KindOf(n.stage(spec, volume.DeviceMounterArgs{})))
	n.driver.set(func(d *fakeDriver) { d.before = nil })
	first := n.driver.transcript()
	n.loseStaging()
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.Empty(t, n.driver.methods())

	n.driver.set(func(d *fakeDriver) { d.caps = []rpc{capStage} })
	n.registration++
	n.restart()
	err := n.setUp(spec, volume.MounterArgs{})
	require.ErrorIs(t, err, volume.ErrNotMounted)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.Empty(t, n.driver.methods())
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	requireRequests(t, first, n.driver.transcript())
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.NoError(t, n.tearDown("data"))
	require.NoError(t, n.unstage(n.stagePath(spec)))
	require.Equal(t, []string{"NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}, n.driver.methods())
}

// TestStagingOfDeviceLost: a device is unstaged by its recorded call. One that no call has staged needs none.
func TestStagingOfDeviceLost(t *testing.T) {
	b := newBlockNode(t, capStage)
	_, err := b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	b.loseStaging()
	b.driver.transcript()
	require.NoError(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths))
	require.Equal(t, []string{"NodeUnstageVolume"}, b.driver.methods())
	_, err = b.mapper("uid-1").SetUpDevice(t.Context(), b.paths)
	require.NoError(t, err)
	require.NoError(t, b.unmapper("uid-1").TearDownDevice(t.Context(), b.paths))
	require.Empty(t, b.driver.methods())
}

// TestHangingMeasurement: a driver that hangs in a measurement does not keep a pod from its end.
func TestHangingMeasurement(t *testing.T) {
	n := newFakeNode(t, capStats)
	spec := n.pv("data")
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	arrived, release := make(chan struct{}, 64), make(chan struct{})
	defer close(release)
	n.driver.set(func(d *fakeDriver) {
		d.before = func(request proto.Message) error {
			if methodOf(request) == "NodeGetVolumeStats" {
				arrived <- struct{}{}
				<-release
			}
			return nil
		}
	})
	n.plugin.patience = time.Millisecond
	ended := make(chan error)
	const polls = 3 // one is in flight, and the others wait
	for range polls {
		go func() {
			_, err := n.newMounter(spec).GetMetrics(context.Background())
			ended <- err
		}()
	}
	<-arrived
	for done := 0; done < polls; { // a call interrupts none, one, or several, and some before they have arrived
		require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
		select {
		case err := <-ended:
			require.Equal(t, volume.Transient, volume.KindOf(err))
			done++
		default:
		}
	}
	require.NoError(t, n.tearDown("data"))
}

// TestRepairedArguments: the call for a volume whose file was lost has the plugin's own arguments, not a
// kubelet's: a volume that is read-only stays so.
func TestRepairedArguments(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	spec.PersistentVolume.Spec.CSI.ReadOnly = true
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	n.driver.transcript()
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.True(t, n.publishRequest().Readonly)
	require.NoError(t, os.Remove(n.podFile("data")))
	n.restart()
	_, err := n.construct("data")
	require.NoError(t, err)
	n.driver.transcript()
	for range 2 {
		require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
		require.True(t, n.publishRequest().Readonly)
		n.restart()
	}
}
