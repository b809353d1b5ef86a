package csi_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) {
	program := func(verb func(killNode) error) func(mounttest.Process) {
		return func(p mounttest.Process) { require.NoError(p, verb(newKillNode(p, p.Args[0], p.Args[1]))) }
	}
	mounttest.Main(m, map[string]func(mounttest.Process){
		"up": program(killNode.up), "down": program(killNode.down), "volumes": volumesProgram, "repeats": repeatsProgram,
		"serve": serveProgram, "pods-up": podsProgram(killPods.up), "pods-down": podsProgram(killPods.down),
	})
}

// A killNode is the plugin of one process, with one volume. A driver in the process of the test serves
// it; it mounts nothing, so that all processes share its volumes.
type killNode struct {
	t      require.TestingT
	plugin *csi.Plugin
	block  bool
	spec   *volume.Spec
	pod    *v1.Pod
}

func newKillNode(t require.TestingT, dir, mode string) killNode {
	return newKillNodeOf(t, dir, mode, mounttest.NewFake(mount.Config{}), csi.Driver{Endpoint: dir + "/csi.sock"})
}

// newKillNodeOf returns a node with the driver at an endpoint or connection.
func newKillNodeOf(t require.TestingT, dir, mode string, mounter mount.Interface, driver csi.Driver) killNode {
	driver.Name, driver.Registration = "disks.example.com", 1
	host, err := volume.NewHost(context.Background(), dir+"/root", volume.WithNodeName("node-1"))
	require.NoError(t, err)
	plugin := csi.New(csi.Config{
		Mounter: mounter,
		Drivers: oneDriver(driver),
	})
	require.NoError(t, plugin.Init(context.Background(), host))
	volumeMode := v1.PersistentVolumeMode(mode)
	return killNode{
		t: t, plugin: plugin, block: volumeMode == v1.PersistentVolumeBlock, pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}},
		spec: killSpec("pv", "v", volumeMode),
	}
}

func killSpec(name, handle string, mode v1.PersistentVolumeMode) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: handle}},
			VolumeMode:             &mode,
		},
	}, false)
}

// up stages and publishes the volume.
func (n killNode) up() error {
	ctx := context.Background()
	if n.block {
		m, err := n.plugin.NewBlockVolumeMapper(n.spec, n.pod)
		require.NoError(n.t, err)
		if _, err := m.SetUpDevice(ctx, volume.BlockVolumePaths{}); err != nil {
			return err
		}
		_, err = m.MapPodDevice(ctx, volume.BlockVolumePaths{})
		return err
	}
	if err := n.stage(); err != nil {
		return err
	}
	return n.publish()
}

// stage mounts the volume once for the node.
func (n killNode) stage() error {
	devices, err := n.plugin.NewDeviceMounter()
	require.NoError(n.t, err)
	at, err := devices.GetDeviceMountPath(n.spec)
	require.NoError(n.t, err)
	return devices.MountDevice(context.Background(), n.spec, at, volume.DeviceMounterArgs{})
}

// publish mounts the volume for the pod.
func (n killNode) publish() error {
	m, err := n.plugin.NewMounter(n.spec, n.pod)
	require.NoError(n.t, err)
	return m.SetUp(context.Background(), volume.MounterArgs{IsRemount: true})
}

// down unpublishes and unstages the volume, by files alone.
func (n killNode) down() error {
	ctx := context.Background()
	if n.block {
		u, err := n.plugin.NewBlockVolumeUnmapper("pv", "uid")
		require.NoError(n.t, err)
		if err := u.UnmapPodDevice(ctx); err != nil {
			return err
		}
		global, err := u.GetGlobalMapPath(n.spec)
		require.NoError(n.t, err)
		return u.TearDownDevice(ctx, volume.BlockVolumePaths{GlobalMapPath: global})
	}
	if err := n.unpublish("uid"); err != nil {
		return err
	}
	return n.unstage()
}

// unpublish unmounts the volume of a pod.
func (n killNode) unpublish(pod types.UID) error {
	u, err := n.plugin.NewUnmounter(n.spec.Name(), pod)
	require.NoError(n.t, err)
	return u.TearDown(context.Background())
}

// unstage unmounts the volume once for the node.
func (n killNode) unstage() error {
	devices, err := n.plugin.NewDeviceMounter()
	require.NoError(n.t, err)
	at, err := devices.GetDeviceMountPath(n.spec)
	require.NoError(n.t, err)
	undevices, err := n.plugin.NewDeviceUnmounter()
	require.NoError(n.t, err)
	return undevices.UnmountDevice(context.Background(), at)
}

// TestKilled: after SIGKILL at any place, the next process brings the volume up, or takes it down, by
// calls that the specification permits, and then nothing is left.
func TestKilled(t *testing.T) {
	for _, mode := range []v1.PersistentVolumeMode{v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock} {
		for _, verb := range []string{"up", "down"} {
			t.Run(string(mode)+"/"+verb, func(t *testing.T) { testKilled(t, string(mode), verb) })
		}
	}
}

func testKilled(t *testing.T, mode, verb string) {
	dir, err := os.MkdirTemp("", "csi") // the path of a socket is short
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/root", 0o750))
	driver := csitest.NewDriver(csitest.Config{Name: "disks.example.com", Capabilities: csitest.Capabilities{
		Node: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	}})
	require.NoError(t, driver.Listen(dir+"/csi.sock"))
	defer driver.Close()
	program := func() *exec.Cmd {
		require.NoError(t, os.RemoveAll(dir+"/root"))
		require.NoError(t, os.Mkdir(dir+"/root", 0o750))
		if verb == "down" {
			n := newKillNode(t, dir, mode)
			require.NoError(t, n.up())
			require.NoError(t, n.plugin.Close())
		}
		return mounttest.Program(verb, dir, mode)
	}
	next := 0
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		if next++; next%2 == 0 {
			n := newKillNode(t, dir, mode)
			require.NoError(t, n.up(), place)
			require.NoError(t, n.plugin.Close())
		}
		n := newKillNode(t, dir, mode)
		require.NoError(t, n.down(), place)
		require.NoError(t, n.plugin.Close())
		require.Empty(t, driver.Volumes(), place)
		require.Empty(t, driver.Violations(), place)
		require.Empty(t, leftFiles(t, dir+"/root"), place)
	})
	t.Logf("killed at %d places", kills)
}

// leftFiles returns the files of volumes, and their directories, below the host's root.
func leftFiles(t *testing.T, root string) (left []string) {
	kept := map[string]bool{"volumeDevices": true, "staging": true, "publish": true, "disks.example.com": true, "kubernetes.io~csi": true}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		base := filepath.Base(path)
		isRoom := strings.HasPrefix(base, "kubernetes.io") || base == "csi" || base == "pods" || base == "plugins" || base == "volumes" || filepath.Base(filepath.Dir(path)) == "pods" || kept[base]
		if path != root && (!isRoom || !entry.IsDir()) {
			left = append(left, path)
		}
		return err
	}))
	return left
}
