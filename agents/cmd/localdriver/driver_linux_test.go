package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDriver: the driver registers itself; a pod's volume is created, mounted by the plugin kubernetes.io/csi, visible
// on the node beside the driver's mount namespace, and removed with a restart of the driver at each step.
func TestDriver(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir, err := os.MkdirTemp("", "l") // short enough for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	kubelet, peer, claims := dir+"/kubelet", dir+"/peer", dir+"/claims"
	for _, sub := range []string{kubelet, peer, claims} {
		require.NoError(t, os.Mkdir(sub, 0o755))
	}
	// The kubelet's directory in the driver's container, and on the node.
	require.NoError(t, unix.Mount("tmpfs", kubelet, "tmpfs", 0, ""))
	require.NoError(t, unix.Mount("", kubelet, "", unix.MS_SHARED, ""))
	require.NoError(t, unix.Mount(kubelet, peer, "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount(peer, 0))
		require.NoError(t, unix.Unmount(kubelet, 0))
	})

	changed := make(chan string, 16)
	watcher, err := registration.New(registration.Config{Dir: kubelet + "/plugins_registry", Changed: func(name string) { changed <- name }})
	require.NoError(t, err)
	watching, end := context.WithCancel(context.Background())
	watched := make(chan error, 1)
	go func() { watched <- watcher.Run(watching) }()
	defer func() {
		end()
		<-watched
	}()
	start := func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended, log := make(chan int, 1), &bytes.Buffer{}
		go func() {
			ended <- program.Run(ctx, []string{"-name=l.example.com", "-node-id=node-1", "-kubelet-dir=" + kubelet, "-claims=" + claims}, log, log)
		}()
		require.Equal(t, "l.example.com", <-changed)
		return func() {
			cancel()
			require.Zero(t, <-ended, log.String())
			require.Equal(t, "l.example.com", <-changed)
		}
	}
	stop := start()
	restart := func() {
		stop()
		stop = start()
	}
	defer func() { stop() }()

	connection, err := grpc.NewClient("unix:"+kubelet+"/plugins/l.example.com/csi.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = connection.Close() }()
	controller := csipb.NewControllerClient(connection)
	request := &csipb.CreateVolumeRequest{
		Name: "pvc-1", CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 20},
		VolumeCapabilities: []*csipb.VolumeCapability{{
			AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
			AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		}},
		AccessibilityRequirements: &csipb.TopologyRequirement{Requisite: []*csipb.Topology{{Segments: map[string]string{"topology.l.example.com/node": "node-1"}}}},
	}
	created, err := controller.CreateVolume(t.Context(), request)
	require.NoError(t, err)
	require.DirExists(t, claims+"/pvc-1")
	capacity, err := controller.GetCapacity(t.Context(), &csipb.GetCapacityRequest{})
	require.NoError(t, err)
	require.Positive(t, capacity.AvailableCapacity)
	require.Equal(t, capacity.AvailableCapacity, capacity.GetMaximumVolumeSize().GetValue(), "schedulers prefer the largest size to the capacity")

	host, err := volume.NewHost(t.Context(), kubelet, volume.WithNodeName("node-1"))
	require.NoError(t, err)
	plugin := csi.New(csi.Config{Mounter: mount.New(mount.Config{}), Drivers: watcher})
	defer func() { require.NoError(t, plugin.Close()) }()
	_, err = volume.NewVolumePluginMgr(t.Context(), host, plugin)
	require.NoError(t, err)
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "l.example.com", VolumeHandle: created.Volume.VolumeId, VolumeAttributes: created.Volume.VolumeContext}
	spec := volume.NewSpecFromPersistentVolume(pv, false)

	devices, err := plugin.NewDeviceMounter()
	require.NoError(t, err)
	staging, err := devices.GetDeviceMountPath(spec)
	require.NoError(t, err)
	require.NoError(t, devices.MountDevice(t.Context(), spec, staging, volume.DeviceMounterArgs{}))
	var paths []string
	for _, uid := range []types.UID{"a", "b"} {
		restart()
		mounter, err := plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: uid}})
		require.NoError(t, err)
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{DeviceMountPath: staging, FsGroup: new(int64)}))
		paths = append(paths, mounter.GetPath())
	}
	require.NoError(t, os.WriteFile(paths[0]+"/file", []byte("written"), 0o600))
	shared, err := os.Stat(claims + "/pvc-1")
	require.NoError(t, err)
	require.NotZero(t, shared.Mode()&os.ModeSetgid, "the driver gives the directory to the group")
	onNode := strings.Replace(paths[1], kubelet, peer, 1)
	text, err := os.ReadFile(onNode + "/file")
	require.NoError(t, err, "the mount has not propagated to the node")
	require.Equal(t, "written", string(text))

	for _, uid := range []types.UID{"a", "b"} {
		restart()
		unmounter, err := plugin.NewUnmounter("pvc-1", uid)
		require.NoError(t, err)
		require.NoError(t, unmounter.TearDown(t.Context()))
	}
	require.NoDirExists(t, onNode)
	undevices, err := plugin.NewDeviceUnmounter()
	require.NoError(t, err)
	require.NoError(t, undevices.UnmountDevice(t.Context(), staging))
	restart()
	again, err := controller.CreateVolume(t.Context(), request, grpc.WaitForReady(true))
	require.NoError(t, err)
	require.Equal(t, created.Volume.VolumeId, again.Volume.VolumeId)
	_, err = controller.DeleteVolume(t.Context(), &csipb.DeleteVolumeRequest{VolumeId: created.Volume.VolumeId})
	require.NoError(t, err)
	require.NoDirExists(t, claims+"/pvc-1")
}

// TestWrongArguments: the exit status is 2, and 0 for -help.
func TestWrongArguments(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	testbed.RequireCommandLines(t, program.Run,
		testbed.CommandLine{Status: 2, Prints: "-node-id: required; see -help"},
		testbed.CommandLine{Args: "-claims=/c", Status: 2, Prints: "-node-id: required"},
		testbed.CommandLine{Args: "-node-id=n", Status: 2, Prints: "-claims: required"},
		testbed.CommandLine{Args: "-node-id=n -claims=/c x", Status: 2, Prints: "x"},
		testbed.CommandLine{Args: "-help", Prints: "-claims"},
		testbed.CommandLine{Args: "-node-id=n -claims=/c -kubelet-dir=/proc/missing", Status: 1, Prints: "/proc/missing"})
}
