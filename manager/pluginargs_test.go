package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A recordingPlugin is a fake plugin that records the arguments of its calls.
type recordingPlugin struct {
	*volumetest.FakePlugin
	mu       sync.Mutex
	detached []volume.DetachRequest
	setUps   []volume.MounterArgs
	staged   []volume.BlockVolumePaths // of SetUpDevice
	mapped   []volume.BlockVolumePaths // of MapPodDevice
	tornDown []volume.BlockVolumePaths // of TearDownDevice
}

func (w *recordingPlugin) Unwrap() volume.VolumePlugin { return nil }

// withRecordingPlugin makes a recordingPlugin the node's only plugin.
func (n *node) withRecordingPlugin() *recordingPlugin {
	n.Helper()
	w := &recordingPlugin{FakePlugin: n.plugin}
	plugins, err := volume.NewVolumePluginMgr(n.Context(), n.host, w)
	require.NoError(n, err)
	n.config.Plugins = plugins
	return w
}

// appendTo appends to one of the plugin's lists.
func appendTo[T any](w *recordingPlugin, list *[]T, element T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, element)
}

func (w *recordingPlugin) NewDetacher() (volume.Detacher, error) {
	d, err := w.FakePlugin.NewDetacher()
	return recordingDetacher{w, d}, err
}

type recordingDetacher struct {
	w *recordingPlugin
	volume.Detacher
}

func (d recordingDetacher) Detach(ctx context.Context, req volume.DetachRequest) error {
	appendTo(d.w, &d.w.detached, req)
	return d.Detacher.Detach(ctx, req)
}

// TestDetachReceivesSpec: the plugin receives the specification of the volume, also after a restart.
func TestDetachReceivesSpec(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, volumetest.FakeConfig{})
			w := n.withRecordingPlugin()
			n.claim("a")
			pod := podWith("1", "a")
			_, stop := n.runUp(pod)
			if restarted {
				stop()
				_, stop = n.run()
			}
			defer stop()
			n.source.RemovePod(pod.UID)
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Len(t, w.detached, 1)
			req := w.detached[0]
			require.Equal(t, "node-1", string(req.Node))
			name, err := n.plugin.GetVolumeName(req.Spec)
			require.NoError(t, err)
			require.Equal(t, req.VolumeName, name)
		})
	}
}

func (w *recordingPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := w.FakePlugin.NewMounter(spec, pod)
	return recordingMounter{m, w}, err
}

type recordingMounter struct {
	volume.Mounter
	w *recordingPlugin
}

func (m recordingMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	appendTo(m.w, &m.w.setUps, args)
	return m.Mounter.SetUp(ctx, args)
}

func (w *recordingPlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	m, err := w.FakePlugin.NewBlockVolumeMapper(spec, pod)
	return recordingMapper{m, w}, err
}

// A recordingMapper stages the device, and returns no path of the mapped one.
type recordingMapper struct {
	volume.BlockVolumeMapper
	w *recordingPlugin
}

func (m recordingMapper) SetUpDevice(ctx context.Context, paths volume.BlockVolumePaths) (string, error) {
	appendTo(m.w, &m.w.staged, paths)
	_, err := m.BlockVolumeMapper.SetUpDevice(ctx, paths)
	return "/staged", err
}

func (m recordingMapper) MapPodDevice(ctx context.Context, paths volume.BlockVolumePaths) (string, error) {
	appendTo(m.w, &m.w.mapped, paths)
	_, err := m.BlockVolumeMapper.MapPodDevice(ctx, paths)
	return "", err
}

func (w *recordingPlugin) NewBlockVolumeUnmapper(name string, pod types.UID) (volume.BlockVolumeUnmapper, error) {
	u, err := w.FakePlugin.NewBlockVolumeUnmapper(name, pod)
	return recordingUnmapper{u, w}, err
}

type recordingUnmapper struct {
	volume.BlockVolumeUnmapper
	w *recordingPlugin
}

func (u recordingUnmapper) TearDownDevice(ctx context.Context, paths volume.BlockVolumePaths) error {
	appendTo(u.w, &u.w.tornDown, paths)
	return u.BlockVolumeUnmapper.TearDownDevice(ctx, paths)
}

// TestBlockVolumePaths: each step receives the paths that the steps before it returned, also if
// the manager restarts between them.
func TestBlockVolumePaths(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, volumetest.FakeConfig{})
			w := n.withRecordingPlugin()
			n.claim("a", ofMode(v1.PersistentVolumeBlock))
			pod := withDevices(podWith("1", "a"))
			m, stop := n.runUp(pod)
			require.Equal(t, "/staged", m.GetMountedVolumesForPod("1")["v0"].Path)
			if restarted {
				stop()
				n.source.RemovePod(pod.UID)
				_, stop = n.run()
			}
			defer stop()
			n.source.RemovePod(pod.UID)
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Len(t, w.staged, 1)
			paths := w.staged[0]
			require.NotEmpty(t, paths.DevicePath)
			require.Contains(t, paths.GlobalMapPath, "/volumeDevices/a")
			require.Empty(t, paths.StagingPath)
			paths.StagingPath = "/staged"
			require.Equal(t, []volume.BlockVolumePaths{paths}, w.mapped)
			require.Equal(t, []volume.BlockVolumePaths{paths}, w.tornDown)
		})
	}
}

// TestMounterArgs: SetUp receives the paths of the device, and whether the volume may be up.
func TestMounterArgs(t *testing.T) {
	for name, c := range map[string]struct {
		fake             volumetest.FakeConfig
		attached, shared bool
	}{
		"for each pod": {fake: perPod},
		"for all":      {fake: volumetest.FakeConfig{NoAttach: true}, shared: true},
		"attached":     {fake: volumetest.FakeConfig{NoDeviceMount: true}, attached: true},
		"both":         {attached: true, shared: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, c.fake)
				w := n.withRecordingPlugin()
				n.claim("a")
				for i := range 2 {
					w.setUps = nil
					_, stop := n.runUp(podWith("1", "a"))
					stop()
					for _, args := range w.setUps {
						require.Equal(t, c.attached, args.DevicePath != "")
						require.Equal(t, c.shared, args.DeviceMountPath != "")
					}
					require.NotEmpty(t, w.setUps)
					require.Equal(t, i > 0, w.setUps[0].IsRemount, "after a restart it may be up")
				}
			})
		})
	}
}

// A recoveringPlugin is a recordingPlugin that reconstructs the paths of devices, too.
type recoveringPlugin struct{ *recordingPlugin }

func (r recoveringPlugin) ConstructBlockVolumeSpec(ctx context.Context, pod types.UID, name, path string) (volume.ReconstructedVolume, error) {
	found, err := r.FakePlugin.ConstructBlockVolumeSpec(ctx, pod, name, path)
	found.DevicePath, found.StagingPath = "/dev/recovered", "/staged/recovered"
	return found, err
}

// TestReconstructedPathsAreUsed: without a record the manager uses the paths that the plugin
// reconstructs.
func TestReconstructedPathsAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		r := recoveringPlugin{n.withRecordingPlugin()}
		plugins, err := volume.NewVolumePluginMgr(n.Context(), n.host, r)
		require.NoError(t, err)
		n.config.Plugins = plugins
		n.claim("a", ofMode(v1.PersistentVolumeBlock))
		pod := withDevices(podWith("1", "a"))
		_, stop := n.runUp(pod)
		stop()
		require.NoError(t, os.RemoveAll(filepath.Join(n.host.Root(), "plugins", "volumekit.io/manager")))
		n.source.RemovePod(pod.UID)
		_, stop = n.run()
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, r.tornDown, 1)
		require.Equal(t, "/dev/recovered", r.tornDown[0].DevicePath)
		require.Equal(t, "/staged/recovered", r.tornDown[0].StagingPath)
	})
}
