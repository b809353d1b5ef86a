package driver_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exceptions are tests of the contract that the plugin kubernetes.io/csi cannot pass, with the reason.
var exceptions = map[string]string{
	"MountFails":          "a status has a code and a text, and no cause",
	"UnmountFails":        "a status has a code and a text, and no cause",
	"DeviceMountFails":    "directories are not mounted once for the node",
	"DeviceMount":         "directories are not mounted once for the node",
	"DeviceMountForGroup": "directories are not mounted once for the node",
	"Expand":              "a driver with nothing to expand answers OK",
}

// TestContractThroughCSI: directories that a driver serves keep the contract of plugins through the plugin
// kubernetes.io/csi. The driver is restarted whenever the plugin is.
func TestContractThroughCSI(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		t.Setenv("TMPDIR", testbed.Memory())
		config := throughCSI(t, nil)
		config.NoMetrics = true
		testContract(t, config, map[string]string{"FsGroup": "the group is changed through the mount, which a fake kernel does not show"})
	})
	t.Run("real", func(t *testing.T) {
		if mounttest.Namespace(t) {
			testContract(t, throughCSI(t, func(runner) mount.Interface { return mount.New(mount.Config{}) }), nil)
		}
	})
}

// A runner runs all tests of the contract but the exceptions.
type runner struct {
	*testing.T
	exceptions map[string]string // by name of the test
	seen       map[string]bool
}

func (r runner) Run(name string, test func(runner)) bool {
	r.seen[name] = true
	if _, ok := r.exceptions[name]; ok {
		return true
	}
	return r.T.Run(name, func(t *testing.T) {
		test(runner{t, r.exceptions, r.seen})
	})
}

func testContract(t *testing.T, config volumetest.Config[runner], further map[string]string) {
	seen, skipped := map[string]bool{}, maps.Clone(exceptions)
	maps.Copy(skipped, further)
	volumetest.TestPlugin(runner{t, skipped, seen}, config)
	for name := range skipped {
		require.True(t, seen[name], "no test %s", name)
	}
}

// oneDriver is the only registered driver.
type oneDriver struct{ endpoint string }

func (d oneDriver) Driver(name string) (csi.Driver, bool) {
	return csi.Driver{Name: name, Endpoint: d.endpoint, Registration: 1, NodeID: "node-1"}, name == "local.example.com"
}

// manyGroups is the object of a driver whose volumes may change their group.
type manyGroups struct{}

func (manyGroups) GetCSIDriver(_ context.Context, name string) (*storagev1.CSIDriver, error) {
	policy := storagev1.FileFSGroupPolicy
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{FSGroupPolicy: &policy}}, nil
}

func throughCSI(t *testing.T, newMounter func(runner) mount.Interface) volumetest.Config[runner] {
	base, err := os.MkdirTemp("", "c") // short enough for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	base, err = filepath.EvalSymlinks(base)
	require.NoError(t, err)
	disks := base + "/disks"
	require.NoError(t, os.Mkdir(disks, 0o755))
	type process struct {
		root string
		stop func()
	}
	processes := map[string]process{} // by root of the client's host
	serve := func(t runner, host volume.VolumeHost, mounter mount.Interface) string {
		root, err := os.MkdirTemp(base, "")
		require.NoError(t, err)
		before, ok := processes[host.Root()]
		if ok {
			before.stop()
			root = before.root
		} else {
			t.Cleanup(func() { processes[host.Root()].stop() })
		}
		own, err := volume.NewHost(t.Context(), root, volume.WithTargetDirs(append(host.TargetDirs(), host.Root())...), volume.WithNodeName("node-1"))
		require.NoError(t, err)
		listener, err := driver.Listen(t.Context(), root+"/s")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		config := driver.Config{
			Name: "local.example.com", Version: "1", NodeID: "node-1", Host: own,
			Plugin: local.New(local.Config{Mounter: mounter, Roots: []string{disks}}),
		}
		go func() { ended <- driver.Serve(ctx, listener, config) }()
		stopped := false
		stop := func() {
			cancel()
			if !stopped {
				require.NoError(t, <-ended)
			}
			stopped = true
		}
		processes[host.Root()] = process{root, stop}
		return root + "/s"
	}
	newSpec := func(t runner) *volume.Spec {
		dir, err := os.MkdirTemp(disks, "disk")
		require.NoError(t, err)
		source, err := json.Marshal(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: dir}})
		require.NoError(t, err)
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: filepath.Base(dir)}}
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "local.example.com", VolumeHandle: dir, VolumeAttributes: map[string]string{
			driver.VersionKey: "1", driver.SourceKey: string(source),
		}}
		return volume.NewSpecFromPersistentVolume(pv, false)
	}
	return volumetest.Config[runner]{
		New: func(t runner, host volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return csi.New(csi.Config{Mounter: m, Drivers: oneDriver{serve(t, host, m)}, Objects: manyGroups{}})
		},
		NewMounter: newMounter,
		Spec:       func(t runner) *volume.Spec { return newSpec(t) },
		ReadOnlySpec: func(t runner) *volume.Spec {
			s := newSpec(t)
			s.PersistentVolume.Spec.CSI.ReadOnly = true
			return s
		},
		Backing:   func(s *volume.Spec) string { return s.PersistentVolume.Spec.CSI.VolumeHandle },
		Directory: "mount", // of the kubelet's path
		NoBlock:   true,
		// As with a kubelet: the mounts of containers are read-only.
		RuntimeReadOnly: true,
		Arguments:       volumetest.Arguments{FsGroup: volumetest.Honoured},
		SELinuxRelabel:  true,
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
			volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, false),
		},
	}
}
