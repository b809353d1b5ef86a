package manager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An unrecognizingPlugin cannot reconstruct the volumes of the pod "ghost".
type unrecognizingPlugin struct{ *volumetest.FakePlugin }

var errUnrecognized = errors.New("no luck")

func (p unrecognizingPlugin) ConstructVolumeSpec(ctx context.Context, name, path string) (volume.ReconstructedVolume, error) {
	if strings.Contains(path, "/ghost/") {
		return volume.ReconstructedVolume{}, errUnrecognized
	}
	return p.FakePlugin.ConstructVolumeSpec(ctx, name, path)
}

// A scopedPlugin is an unrecognizingPlugin that returns a scope for a leftover directory.
type scopedPlugin struct {
	unrecognizingPlugin
	scope func(volume.LeftoverDir) (volume.LeftoverScope, error)
}

func (p scopedPlugin) GetLeftoverScope(_ context.Context, dir volume.LeftoverDir) (volume.LeftoverScope, error) {
	return p.scope(dir)
}

// TestLeftoverKeepsItsVolume: a volume that an unrecognized directory may be stays attached and
// device-mounted as long as the directory exists. The plugin's other volumes are unmounted and
// detached.
func TestLeftoverKeepsItsVolume(t *testing.T) {
	type scope = volume.LeftoverScope
	returning := func(s scope, err error) func(*node) func(volume.LeftoverDir) (scope, error) {
		return func(*node) func(volume.LeftoverDir) (scope, error) {
			return func(volume.LeftoverDir) (scope, error) { return s, err }
		}
	}
	for name, test := range map[string]struct {
		scope func(*node) func(volume.LeftoverDir) (scope, error) // nil: no GetLeftoverScope
		keeps []string
	}{
		"by its directory": {nil, []string{"a"}},
		"nothing":          {returning(scope{}, nil), []string{"a"}},
		"an error":         {returning(scope{Driver: "other"}, errUnrecognized), []string{"a"}},
		"a panic": {func(*node) func(volume.LeftoverDir) (scope, error) {
			return func(volume.LeftoverDir) (scope, error) { panic("no luck") }
		}, []string{"a"}},
		"another volume": {func(n *node) func(volume.LeftoverDir) (scope, error) {
			return func(dir volume.LeftoverDir) (scope, error) {
				require.Equal(n, volume.LeftoverDir{PodUID: "ghost", VolumeName: "a", Path: n.ghostDir()}, dir)
				return scope{VolumeName: n.dir + "/disk-b"}, nil
			}
		}, []string{"b"}},
		"their driver":   {returning(scope{Driver: "volumekit.io/fake"}, nil), []string{"a", "b", "c"}},
		"another driver": {returning(scope{Driver: "volumekit.io/other"}, nil), nil},
		"its device": {func(n *node) func(volume.LeftoverDir) (scope, error) {
			return func(volume.LeftoverDir) (scope, error) {
				return scope{DevicePath: "/dev/volumekit-fake" + n.dir + "/disk-b"}, nil
			}
		}, []string{"b"}},
		"another device": {returning(scope{DevicePath: "/dev/none"}, nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				var plugin volume.VolumePlugin = unrecognizingPlugin{n.plugin}
				if test.scope != nil {
					plugin = scopedPlugin{unrecognizingPlugin{n.plugin}, test.scope(n)}
				}
				var err error
				n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host, plugin)
				require.NoError(t, err)
				require.NoError(t, os.MkdirAll(n.ghostDir(), 0o755))
				var pods []*v1.Pod
				for _, name := range []string{"a", "b", "c"} {
					n.claim(name)
					pods = append(pods, podWith(types.UID(name), name))
				}
				m, stop := n.runUp(pods...)
				defer stop()
				require.Len(t, m.State().Leftovers, 1)
				n.source.RemovePod("a", "b", "c")
				time.Sleep(time.Hour) // and so many resyncs
				require.Equal(t, test.keeps, attachedVolumes(m))
				require.Len(t, n.mountsBelow("/mounts/"), len(test.keeps))

				require.NoError(t, os.Remove(n.ghostDir()))
				time.Sleep(time.Hour)
				require.Empty(t, m.State().Volumes)
				require.Zero(t, stableMountCount(n))
			})
		})
	}
}

// ghostDir returns the path of a volume directory of a pod that the source lacks.
func (n *node) ghostDir() string {
	return filepath.Join(n.dir, "root/pods/ghost/volumes/volumekit.io~fake/a")
}

func attachedVolumes(m *manager.Manager) (names []string) {
	for _, v := range m.State().Volumes {
		if v.Attached == "present" && v.Device == "present" {
			names = append(names, strings.TrimPrefix(filepath.Base(string(v.Unique)), "disk-"))
		}
	}
	return names
}

// TestLeftoverView: a read-only view that is not understood may be its volume, as a directory
// of the volume's own name may.
func TestLeftoverView(t *testing.T) {
	for name, test := range map[string]struct {
		fake volumetest.FakeConfig
		mode v1.PersistentVolumeAccessMode
		is   func(n *node, m *manager.Manager, pod *v1.Pod)
	}{
		"it stays attached": {volumetest.FakeConfig{}, v1.ReadWriteMany, func(n *node, m *manager.Manager, pod *v1.Pod) {
			n.up(m, pod)
			n.source.RemovePod(pod.UID)
			time.Sleep(time.Hour)
			require.Equal(n, []string{"a"}, attachedVolumes(m))
		}},
		"no other pod gets it": {perPod, v1.ReadWriteOncePod, func(n *node, m *manager.Manager, pod *v1.Pod) {
			time.Sleep(time.Hour)
			require.Error(n, m.WaitForAttachAndMount(endedContext(n.T), pod))
			require.Empty(n, n.mountsBelow("/pods/1/"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, test.fake)
				var requests []volume.LeftoverDir
				plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, scopedPlugin{unrecognizingPlugin{n.plugin}, func(dir volume.LeftoverDir) (scope volume.LeftoverScope, err error) {
					requests = append(requests, dir)
					return scope, nil
				}})
				require.NoError(t, err)
				n.config.Plugins = plugins
				view := n.ghostDir() + "~r"
				require.NoError(t, os.MkdirAll(view, 0o755))
				n.claim("a", func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{test.mode} })
				m, stop := n.run()
				defer stop()
				pod := podWith("1", "a")
				n.source.SetPod(pod)
				test.is(n, m, pod)
				synctest.Wait() // a rescan queries the plugin at the same time
				require.Equal(t, volume.LeftoverDir{PodUID: "ghost", VolumeName: "a", Path: view}, requests[0])
			})
		})
	}
}

// TestForeignDirectoriesStay: directories that no plugin recognizes, such as those of a kubelet,
// stay.
func TestForeignDirectoriesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		csi := filepath.Join(n.host.Root(), "pods/1/volumes/kubernetes.io~csi/pvc-1")
		require.NoError(t, os.MkdirAll(csi+"/mount", 0o750))
		require.NoError(t, os.WriteFile(csi+"/vol_data.json", []byte(`{"driverName":"x"}`), 0o600))
		odd := filepath.Join(n.host.Root(), "pods/1/volumes/odd~name~here")
		require.NoError(t, os.MkdirAll(odd+"/v", 0o750))
		empty := filepath.Join(n.host.Root(), "pods/2/volumes/volumekit.io~fake/empty")
		require.NoError(t, os.MkdirAll(empty, 0o750))
		full := filepath.Join(n.host.Root(), "pods/3/volumes/volumekit.io~fake/full")
		require.NoError(t, os.MkdirAll(full, 0o750))
		require.NoError(t, os.WriteFile(full+"/precious", nil, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(n.host.Root(), "pods/file"), nil, 0o600))
		m, stop := n.run()
		time.Sleep(time.Hour + time.Second)
		require.Len(t, m.State().Leftovers, 2)
		late := filepath.Join(n.host.Root(), "pods/2/volumes/volumekit.io~fake/late")
		require.NoError(t, os.MkdirAll(late, 0o750))
		time.Sleep(time.Hour + time.Second)
		require.NoDirExists(t, late, "it is noticed in time")
		hung := filepath.Join(n.host.Root(), "pods/2/volumes/volumekit.io~fake/hung")
		require.NoError(t, os.MkdirAll(hung, 0o750))
		n.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Delay: time.Hour})
		time.Sleep(15 * time.Minute)
		stop() // during the rescan
		require.DirExists(t, hung)
		require.FileExists(t, csi+"/vol_data.json")
		require.DirExists(t, odd+"/v")
		require.FileExists(t, full+"/precious")
		require.NoDirExists(t, empty, "an empty directory that is left goes")
		left := m.State().Leftovers
		require.Len(t, left, 3, "what did not answer is one, too")
		require.Equal(t, "kubernetes.io/csi", left[0].Plugin)
		require.Equal(t, csi, left[0].Path)
		require.ErrorIs(t, left[0].Err, volume.ErrNoPluginMatched)
	})
}
