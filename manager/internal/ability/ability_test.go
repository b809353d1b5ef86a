package ability

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// A plainPlugin has the methods of every plugin, and no ability.
type plainPlugin struct{ volume.VolumePlugin }

// A panicPlugin panics when it is queried for a device mounter.
type panicPlugin struct{ *volumetest.FakePlugin }

func (panicPlugin) NewDeviceMounter() (volume.DeviceMounter, error) { panic("no luck") }

// newPlugin returns an initialized fake plugin, and the directory of its mounts for all pods.
func newPlugin(t *testing.T) (plugin *volumetest.FakePlugin, dir string) {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	plugin = volumetest.NewFakePlugin(volumetest.FakeConfig{})
	require.NoError(t, plugin.Init(t.Context(), host))
	dir, err = host.PluginDir(plugin.GetPluginName())
	require.NoError(t, err)
	return plugin, dir
}

// TestMissingAbility: a missing ability is volume.ErrNotSupported, with the name of the plugin.
func TestMissingAbility(t *testing.T) {
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	for name, find := range map[string]func(volume.VolumePlugin) error{
		"attachable":       func(p volume.VolumePlugin) error { _, err := Attachable(p); return err },
		"device-mountable": func(p volume.VolumePlugin) error { _, err := DeviceMountable(p); return err },
		"block":            func(p volume.VolumePlugin) error { _, err := Block(p); return err },
	} {
		require.NoError(t, find(plugin), name)
		err := find(plainPlugin{plugin})
		require.ErrorIs(t, err, volume.ErrNotSupported, name)
		require.ErrorContains(t, err, plugin.GetPluginName(), name)
	}
}

// TestDeviceMountPath: the path is that of the plugin, also of a volume that no pod needs.
func TestDeviceMountPath(t *testing.T) {
	plugin, dir := newPlugin(t)
	spec := plugin.NewSpec("disk", "/disk")
	pod := &v1.Pod{}
	pod.UID = "pod"
	last := naming.PodKey{Pod: "pod", Name: "disk"}
	for name, test := range map[string]struct {
		shared SharedVolume
		want   string
	}{
		"mounted":              {SharedVolume{Plugin: plugin, Spec: spec, Pod: pod}, "mounts/disk"},
		"mounted, without pod": {SharedVolume{Plugin: plugin, Spec: spec}, "mounts/disk"},
		"block":                {SharedVolume{Plugin: plugin, Spec: spec, Block: true, Pod: pod}, "volumeDevices/disk"},
		"block, without pod":   {SharedVolume{Plugin: plugin, Spec: spec, Block: true, LastPod: last}, "volumeDevices/disk"},
	} {
		path, err := test.shared.DeviceMountPath()
		require.NoError(t, err, name)
		require.Equal(t, filepath.Join(dir, test.want), path, name)
	}
	_, err := SharedVolume{Plugin: plainPlugin{plugin}, Spec: spec}.DeviceMountPath()
	require.ErrorIs(t, err, volume.ErrNotSupported)
	_, err = SharedVolume{Plugin: panicPlugin{plugin}, Spec: spec}.DeviceMountPath()
	require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
}

// TestDeviceMountPathOf: a volume without a device mount has no path, nor has one whose plugin
// fails.
func TestDeviceMountPathOf(t *testing.T) {
	plugin, dir := newPlugin(t)
	spec, mounted := plugin.NewSpec("disk", "/disk"), naming.Traits{DeviceMountable: true}
	require.Equal(t, filepath.Join(dir, "mounts/disk"), DeviceMountPathOf(plugin, spec, mounted, &v1.Pod{}))
	require.Empty(t, DeviceMountPathOf(plugin, spec, naming.Traits{Attachable: true}, &v1.Pod{}))
	require.Empty(t, DeviceMountPathOf(panicPlugin{plugin}, spec, mounted, &v1.Pod{}))
}
