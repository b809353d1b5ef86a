package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
)

// podFile returns the path of the file of a pod's volume.
func (n *fakeNode) podFile(name string) string {
	return filepath.Join(n.host.Root(), "pods/uid-1/volumes/kubernetes.io~csi", name, "vol_data.json")
}

func (n *fakeNode) construct(name string) (volume.ReconstructedVolume, error) {
	return n.plugin.ConstructVolumeSpec(context.Background(), name, filepath.Dir(n.podFile(name)))
}

// TestConstruct: a volume is recovered with its use, and its set-up with the recovered specification is
// the same call.
func TestConstruct(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	spec.ReadOnly = true
	spec.PersistentVolume.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	spec.PersistentVolume.Spec.MountOptions = []string{"noatime"}
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	first := last(n.driver.transcript())
	n.restart()
	found, err := n.construct("data")
	require.NoError(t, err)
	pv := found.Spec.PersistentVolume
	require.Equal(t, "data", pv.Name)
	require.Equal(t, v1.CSIPersistentVolumeSource{Driver: driverOne, VolumeHandle: "handle-of-data", FSType: "ext4"}, *pv.Spec.CSI)
	require.Equal(t, []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}, pv.Spec.AccessModes)
	require.Equal(t, []string{"noatime"}, pv.Spec.MountOptions)
	require.True(t, found.Spec.ReadOnly)
	require.NoError(t, n.setUp(found.Spec, volume.MounterArgs{IsRemount: true}))
	requireRequests(t, []proto.Message{first}, n.driver.transcript())
	_, err = n.construct("absent")
	require.ErrorIs(t, err, volume.ErrNotMounted)
	scope, err := n.plugin.GetLeftoverScope(t.Context(), volume.LeftoverDir{PodUID: "uid-1", VolumeName: "data", Path: filepath.Dir(n.podFile("data"))})
	require.NoError(t, err)
	require.Equal(t, volume.LeftoverScope{VolumeName: "one.example.com^handle-of-data", Driver: driverOne}, scope)
}

// TestKubeletTree: a volume that a kubelet has set up is recovered, published again and taken down.
func TestKubeletTree(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	staging := n.stagePath(spec)
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	write := func(file, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	write(n.podFile("data"), `{"attachmentID":"csi-1","driverName":"one.example.com","nodeName":"node-1","specVolID":"data","volumeHandle":"handle-of-data","volumeLifecycleMode":"Persistent"}`)
	write(filepath.Dir(staging)+"/vol_data.json", `{"driverName":"one.example.com","volumeHandle":"handle-of-data"}`)
	n.restart()
	n.driver.transcript()
	found, err := n.construct("data")
	require.NoError(t, err)
	name, err := n.plugin.GetVolumeName(found.Spec)
	require.NoError(t, err)
	require.Equal(t, "one.example.com^handle-of-data", name)
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
	n.restart()
	require.NoError(t, n.tearDown("data"))
	require.NoError(t, n.unstage(staging))
	require.Equal(t, []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}, n.driver.methods())
	require.NoDirExists(t, filepath.Dir(n.podFile("data")))
	require.NoDirExists(t, filepath.Dir(staging))
}

// TestBrokenFile: a missing or broken file of a mounted volume is repaired by the mount table, also
// before a tear-down, and costs that volume alone if it cannot be.
func TestBrokenFile(t *testing.T) {
	for name, damage := range map[string]func(file string) error{
		"missing":     os.Remove,
		"empty":       func(file string) error { return os.Truncate(file, 0) },
		"torn":        func(file string) error { return os.Truncate(file, 20) },
		"a directory": func(file string) error { _ = os.Remove(file); return os.Mkdir(file, 0o750) },
		"a link":      func(file string) error { _ = os.Remove(file); return os.Symlink("/etc/passwd", file) },
		"hostile": func(file string) error {
			return os.WriteFile(file, []byte(`{"driverName":"../..","volumeHandle":"h"}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(t, capStage)
			spec := n.pv("data")
			staging := n.stagePath(spec)
			require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
			require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
			require.NoError(t, damage(n.podFile("data")))
			n.restart()
			if name == "a directory" {
				_, err := n.construct("data")
				require.ErrorIs(t, err, volume.ErrUncertain, "a directory is not replaced")
				return
			}
			found, err := n.construct("data")
			require.NoError(t, err)
			require.Equal(t, "handle-of-data", found.Spec.PersistentVolume.Spec.CSI.VolumeHandle)
			require.NoError(t, damage(n.podFile("data")))
			require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
			require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}), "the specification repairs it")
			require.NoError(t, damage(filepath.Dir(staging)+"/vol_data.json"))
			n.restart()
			n.driver.transcript()
			require.NoError(t, n.unstageAfterRepair(staging))
			require.NoError(t, n.tearDown("data"))
			require.NoDirExists(t, filepath.Dir(staging))
		})
	}
}

// unstageAfterRepair unstages while the file of a pod names the volume.
func (n *fakeNode) unstageAfterRepair(staging string) error {
	data, err := n.plugin.stagedDataOf(context.Background(), stagingIn(filepath.Dir(staging)), driverOne)
	if err != nil {
		return err
	}
	if err := n.tearDown("data"); err != nil {
		return err
	}
	require.Equal(n.t, "handle-of-data", data.VolumeHandle)
	return n.unstage(staging)
}

// TestSharedOrigin: volumes whose staging paths show the same storage are not taken for each other: a file is
// repaired by the one staging path at which exactly the content of the mount is, and else not.
func TestSharedOrigin(t *testing.T) {
	for name, test := range map[string]struct {
		below string // directory of the second volume in that of the first
		want  error
	}{
		"a directory of the other's": {below: "/sub"},
		"the same directory":         {want: ErrUnknownVolume},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(t, capStage)
			first := n.driver.volumeDir("handle-of-first")
			n.driver.dirs = map[string]string{"handle-of-data": first + test.below}
			for _, volumeName := range []string{"first", "data"} {
				require.NoError(t, n.stage(n.pv(volumeName), volume.DeviceMounterArgs{}))
				require.NoError(t, n.setUp(n.pv(volumeName), volume.MounterArgs{}))
			}
			require.NoError(t, os.Remove(n.podFile("data")))
			n.restart()
			n.driver.transcript()
			found, err := n.construct("data")
			require.ErrorIs(t, err, test.want)
			if test.want != nil {
				require.ErrorIs(t, n.tearDown("data"), volume.ErrUncertain)
				require.NoFileExists(t, n.podFile("data"))
				require.Empty(t, n.driver.methods())
				return
			}
			require.Equal(t, "handle-of-data", found.Spec.PersistentVolume.Spec.CSI.VolumeHandle)
			require.NoError(t, n.tearDown("data"))
			require.Equal(t, "handle-of-data", last(n.driver.transcript()).(*csipb.NodeUnpublishVolumeRequest).VolumeId)
		})
	}
}

// TestUnrecoverableFile: without a staged origin, a volume with a broken file stays, mounted or not, with an
// uncertain error, until its specification repairs the file.
func TestUnrecoverableFile(t *testing.T) {
	n := newFakeNode(t)
	require.NoError(t, n.setUp(n.pv("data"), volume.MounterArgs{}))
	require.NoError(t, n.setUp(n.pv("sound"), volume.MounterArgs{}))
	require.NoError(t, os.Truncate(n.podFile("data"), 0))
	n.driver.transcript()
	_, err := n.construct("data")
	require.ErrorIs(t, err, ErrUnknownVolume)
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.ErrorIs(t, n.tearDown("data"), volume.ErrUncertain)
	require.FileExists(t, n.podFile("data"))
	scope, err := n.plugin.GetLeftoverScope(t.Context(), volume.LeftoverDir{PodUID: "uid-1", VolumeName: "data", Path: filepath.Dir(n.podFile("data"))})
	require.Error(t, err)
	require.Zero(t, scope)
	_, err = n.construct("sound")
	require.NoError(t, err)
	require.NoError(t, n.mounter.Unmount(t.Context(), filepath.Dir(n.podFile("data"))+"/mount"))
	_, err = n.construct("data")
	require.ErrorIs(t, err, ErrUnknownVolume)
	err = n.tearDown("data")
	require.ErrorIs(t, err, ErrUnknownVolume, "a driver need not mount")
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.FileExists(t, n.podFile("data"))
	require.Empty(t, n.driver.methods())
	require.NoError(t, n.setUp(n.pv("data"), volume.MounterArgs{IsRemount: true}))
	require.NoError(t, n.tearDown("data"))
	require.Equal(t, []string{"NodePublishVolume", "NodeUnpublishVolume"}, n.driver.methods())
}

// TestBrokenFileOfUnmountedStaging: a driver need not mount at the staging path. A volume whose file is
// broken is unstaged once a pod's file or the specification has repaired the file, and stays before.
func TestBrokenFileOfUnmountedStaging(t *testing.T) {
	for name, repair := range map[string]func(n *fakeNode, spec *volume.Spec) error{
		"specification": func(n *fakeNode, spec *volume.Spec) error {
			return n.stage(spec, volume.DeviceMounterArgs{})
		},
		"file of a pod": func(n *fakeNode, _ *volume.Spec) error {
			return os.WriteFile(n.podFile("data"), []byte(`{"driverName":"one.example.com","specVolID":"data","volumeHandle":"handle-of-data"}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(t, capStage)
			spec := n.pv("data")
			staging := n.stagePath(spec)
			file := filepath.Dir(staging) + "/vol_data.json"
			require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
			require.NoError(t, n.mounter.Unmount(t.Context(), staging))
			require.NoError(t, os.Truncate(file, 0))
			require.NoError(t, os.MkdirAll(filepath.Dir(n.podFile("data")), 0o750))
			n.restart()
			n.driver.transcript()
			err := n.unstage(staging)
			require.ErrorIs(t, err, ErrUnknownVolume)
			require.ErrorIs(t, err, volume.ErrUncertain)
			require.FileExists(t, file)
			require.Empty(t, n.driver.methods())
			require.NoError(t, repair(n, spec))
			require.NoError(t, n.unstage(staging))
			require.Equal(t, "NodeUnstageVolume", methodOf(last(n.driver.transcript())))
			require.NoDirExists(t, filepath.Dir(staging))
		})
	}
}

// TestLostFileOfStaging: a staging path whose file is lost or broken is unstaged after its last pod is gone, in any order
// of the calls.
func TestLostFileOfStaging(t *testing.T) {
	for name, damage := range map[string]func(file string) error{
		"missing": os.Remove,
		"empty":   func(file string) error { return os.Truncate(file, 0) },
		"of another volume": func(file string) error {
			return os.WriteFile(file, []byte(`{"driverName":"one.example.com","volumeHandle":"another"}`), 0o600)
		},
	} {
		for _, unstagesFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", unstagesFirst), func(t *testing.T) {
				n := newFakeNode(t, capStage)
				spec := n.pv("data")
				staging := n.stagePath(spec)
				require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
				require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
				n.restart()
				require.NoError(t, damage(filepath.Dir(staging)+"/vol_data.json"))
				n.driver.transcript()
				want := []string{"NodeUnpublishVolume", "NodeUnstageVolume"}
				if unstagesFirst {
					require.NoError(t, n.unstage(staging))
					slices.Reverse(want)
				}
				require.NoError(t, n.tearDown("data"))
				n.restart()
				require.NoError(t, n.unstage(staging))
				require.Equal(t, want, n.driver.methods())
				require.NoDirExists(t, filepath.Dir(staging))
			})
		}
	}
}

// TestInterruptedWrite: the temporary file of a write that was interrupted before the first call is
// removed with the directory.
func TestInterruptedWrite(t *testing.T) {
	n := newFakeNode(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(n.podFile("data")), 0o750))
	require.NoError(t, os.WriteFile(n.podFile("data")+".tmp", []byte("torn"), 0o600))
	_, err := n.construct("data")
	require.ErrorIs(t, err, volume.ErrNotMounted)
	require.NoDirExists(t, filepath.Dir(n.podFile("data")))
}

// TestOtherVolume: the file of another volume is not this volume's.
func TestOtherVolume(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.NoError(t, os.WriteFile(n.podFile("data"), []byte(`{"driverName":"one.example.com","specVolID":"elsewhere","volumeHandle":"stolen"}`), 0o600))
	_, err := n.construct("data")
	require.ErrorIs(t, err, errOtherVolume)
	require.ErrorIs(t, err, volume.ErrUncertain)
	n.driver.transcript()
	require.ErrorIs(t, n.setUp(spec, volume.MounterArgs{}), volume.ErrAlreadyMounted)
	file := filepath.Dir(n.stagePath(spec)) + "/vol_data.json"
	require.NoError(t, os.WriteFile(file, []byte(`{"driverName":"one.example.com","volumeHandle":"stolen"}`), 0o600))
	require.ErrorIs(t, n.unstage(n.stagePath(spec)), ErrUnknownVolume, "the hash of the handle is another one")
	require.Empty(t, n.driver.methods())
}

// TestStagedOtherVolume: the path of a staged volume is named for the volume, so that a file there that names another
// one is broken. The volume is not published from there before its next staging has repaired the file.
func TestStagedOtherVolume(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	at := n.stagePath(spec)
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, os.WriteFile(filepath.Dir(at)+"/vol_data.json", []byte(`{"driverName":"one.example.com","volumeHandle":"another"}`), 0o600))
	require.ErrorIs(t, n.unstage(at), ErrUnknownVolume)
	require.ErrorIs(t, n.setUp(spec, volume.MounterArgs{}), volume.ErrNotMounted)
	n.driver.transcript()
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.NoError(t, n.tearDown("data"))
	require.NoError(t, n.unstage(at))
	require.Equal(t, []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}, n.driver.methods())
}

// TestLyingDriver: a driver that reports a tear-down which has not happened does not lose the volume.
func TestLyingDriver(t *testing.T) {
	n := newFakeNode(t)
	spec := n.pv("data")
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	mounter := n.driver.mounter
	n.driver.mounter = noMounts{mounter}
	err := n.tearDown("data")
	require.ErrorIs(t, err, errStillMounted)
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.FileExists(t, n.podFile("data"))
	n.driver.mounter = mounter
	require.NoError(t, n.tearDown("data"))
}

// TestHangingDriver: a call ends with its context, with an unknown outcome, and costs no other volume.
func TestHangingDriver(t *testing.T) {
	n := newFakeNode(t, capStage)
	hung, spec := n.pv("hung"), n.pv("data")
	require.NoError(t, n.stage(hung, volume.DeviceMounterArgs{}))
	release := make(chan struct{})
	arrived := make(chan struct{}, 1)
	n.driver.set(func(d *fakeDriver) {
		d.before = func(request proto.Message) error {
			if r, ok := request.(*csipb.NodePublishVolumeRequest); ok && r.VolumeId == "handle-of-hung" {
				arrived <- struct{}{}
				<-release
				return status.Error(codes.Internal, "too late")
			}
			return nil
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.newMounter(hung).SetUp(ctx, volume.MounterArgs{}) }()
	<-arrived
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, volume.ErrUncertain)
	close(release)
	require.FileExists(t, n.podFile("hung"))
}

// TestRestartedDriver: after a restart of the driver the kept connection connects again.
func TestRestartedDriver(t *testing.T) {
	n := newFakeNode(t)
	spec := n.pv("data")
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	second := newFakeDriver(t, n.mounter)
	first := n.driver
	second.backing = first.backing
	n.mu.Lock()
	n.driver, n.registration = second, 2
	n.mu.Unlock()
	require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
	require.Equal(t, []string{"NodePublishVolume"}, first.methods())
	require.Equal(t, []string{"NodePublishVolume"}, second.methods())
	require.NoError(t, os.Remove(second.socket))
	n.restart()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := n.newMounter(n.pv("new")).SetUp(ctx, volume.MounterArgs{})
	require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
	require.NoDirExists(t, filepath.Dir(n.podFile("new")))
}

// TestUnregisteredMeanwhile: a call in flight ends with the answer of its driver, also if the driver has
// removed its registration meanwhile.
func TestUnregisteredMeanwhile(t *testing.T) {
	n := newFakeNode(t)
	spec := n.pv("data")
	release, arrived := make(chan struct{}), make(chan struct{}, 1)
	n.driver.set(func(d *fakeDriver) {
		d.before = func(request proto.Message) error {
			if methodOf(request) == "NodePublishVolume" {
				arrived <- struct{}{}
				<-release
			}
			return nil
		}
	})
	done := make(chan error, 1)
	m := n.newMounter(spec)
	go func() { done <- m.SetUp(context.Background(), volume.MounterArgs{}) }()
	<-arrived
	n.mu.Lock()
	n.registration = 0
	n.mu.Unlock()
	require.ErrorIs(t, n.setUp(n.pv("other"), volume.MounterArgs{}), ErrNotRegistered)
	close(release)
	require.NoError(t, <-done)
}
