package manager_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// An expandPlugin is a fake plugin that records its NodeExpand requests.
type expandPlugin struct {
	*volumetest.FakePlugin
	mu       sync.Mutex
	requests []volume.NodeResizeOptions
}

func (g *expandPlugin) Unwrap() volume.VolumePlugin { return nil }

func (g *expandPlugin) NodeExpand(ctx context.Context, o volume.NodeResizeOptions) (bool, error) {
	g.mu.Lock()
	g.requests = append(g.requests, o)
	g.mu.Unlock()
	return g.FakePlugin.NodeExpand(ctx, o)
}

func (g *expandPlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	m, err := g.FakePlugin.NewBlockVolumeMapper(spec, pod)
	return stagingMapper{m}, err
}

// A stagingMapper returns a path for the staged device.
type stagingMapper struct{ volume.BlockVolumeMapper }

func (s stagingMapper) SetUpDevice(ctx context.Context, paths volume.BlockVolumePaths) (string, error) {
	_, err := s.BlockVolumeMapper.SetUpDevice(ctx, paths)
	return "/staged", err
}

// withExpandPlugin replaces the plugins of the node with an expandPlugin. It returns the plugin, and a
// function that returns the reported expansions after an hour.
func (n *node) withExpandPlugin() (*expandPlugin, func() []manager.Expansion) {
	n.Helper()
	g := &expandPlugin{FakePlugin: n.plugin}
	plugins, err := volume.NewVolumePluginMgr(n.Context(), n.host, g)
	require.NoError(n, err)
	n.config.Plugins = plugins
	var reported []manager.Expansion
	n.config.Expansions = func(e manager.Expansion) { reported = append(reported, e) }
	return g, func() []manager.Expansion {
		time.Sleep(time.Hour)
		synctest.Wait()
		return reported
	}
}

// setSizes sets the capacity of the volume, and the request and the status capacity of its claim;
// an empty one is removed.
func (n *node) setSizes(name, capacity, request, status string) {
	n.Helper()
	list := func(size string) v1.ResourceList {
		if size == "" {
			return nil
		}
		return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
	}
	pv, err := n.source.GetPersistentVolume(n.Context(), name)
	require.NoError(n, err)
	claim, err := n.source.GetPersistentVolumeClaim(n.Context(), "default", name)
	require.NoError(n, err)
	pv, claim = pv.DeepCopy(), claim.DeepCopy()
	pv.Spec.Capacity, claim.Spec.Resources.Requests, claim.Status.Capacity = list(capacity), list(request), list(status)
	n.source.SetVolume(pv)
	n.source.SetClaim(claim)
}

// TestExpansionOnRequest: a volume is grown once if the requested size exceeds the known size. A
// set-up or a restart of the manager alone does not grow it.
func TestExpansionOnRequest(t *testing.T) {
	type sizes struct{ capacity, request, status string }
	for name, c := range map[string]struct {
		first, then, restarted sizes
		grown                  []string // old and new size
	}{
		"no request":                  {sizes{"1Gi", "1Gi", "1Gi"}, sizes{"1Gi", "1Gi", "1Gi"}, sizes{"1Gi", "1Gi", "1Gi"}, nil},
		"no status":                   {sizes{"1Gi", "", ""}, sizes{"1Gi", "", ""}, sizes{"1Gi", "", ""}, nil},
		"pending at first":            {sizes{"2Gi", "2Gi", "1Gi"}, sizes{"2Gi", "2Gi", "2Gi"}, sizes{"2Gi", "2Gi", "2Gi"}, []string{"1Gi-2Gi"}},
		"larger request":              {sizes{"1Gi", "1Gi", "1Gi"}, sizes{"1Gi", "3Gi", "1Gi"}, sizes{"3Gi", "3Gi", "3Gi"}, []string{"1Gi-3Gi"}},
		"the volume is larger":        {sizes{"1Gi", "1Gi", "1Gi"}, sizes{"2Gi", "1Gi", "1Gi"}, sizes{"2Gi", "1Gi", "2Gi"}, []string{"1Gi-2Gi"}},
		"no status, larger":           {sizes{"1Gi", "", ""}, sizes{"2Gi", "", ""}, sizes{"2Gi", "", ""}, []string{"1Gi-2Gi"}},
		"no status, larger meanwhile": {sizes{"1Gi", "", ""}, sizes{"1Gi", "", ""}, sizes{"2Gi", "", ""}, []string{"1Gi-2Gi"}},
		"smaller":                     {sizes{"2Gi", "", "2Gi"}, sizes{"1Gi", "", "2Gi"}, sizes{"1Gi", "", "2Gi"}, nil},
		"twice":                       {sizes{"1Gi", "", "1Gi"}, sizes{"2Gi", "", "1Gi"}, sizes{"3Gi", "", "2Gi"}, []string{"1Gi-2Gi", "2Gi-3Gi"}},
		"the status is not kept":      {sizes{"1Gi", "", "1Gi"}, sizes{"2Gi", "", "1Gi"}, sizes{"2Gi", "", "1Gi"}, []string{"1Gi-2Gi", "1Gi-2Gi"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				g, expansions := n.withExpandPlugin()
				n.claim("a")
				set := func(s sizes) { n.setSizes("a", s.capacity, s.request, s.status) }
				set(c.first)
				_, stop := n.runUp(podWith("1", "a"))
				expansions()
				set(c.then)
				expansions()
				stop()
				set(c.restarted)
				_, stop = n.run()
				defer stop()
				var grown []string
				for _, e := range expansions() {
					require.NoError(t, e.Err)
					require.Equal(t, types.NamespacedName{Namespace: "default", Name: "a"}, e.Claim)
					grown = append(grown, e.OldSize.String()+"-"+e.NewSize.String())
				}
				require.Equal(t, c.grown, grown)
				require.Len(t, g.requests, len(grown))
			})
		})
	}
}

// TestExpansionPaths: an expand request has all paths of the volume.
func TestExpansionPaths(t *testing.T) {
	for name, c := range map[string]struct {
		fake                    volumetest.FakeConfig
		block, attached, shared bool
	}{
		"for each pod": {fake: perPod},
		"for all":      {fake: volumetest.FakeConfig{NoAttach: true}, shared: true},
		"attached":     {fake: volumetest.FakeConfig{NoDeviceMount: true}, attached: true},
		"both":         {attached: true, shared: true},
		"a device":     {block: true, attached: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, c.fake)
				g, expansions := n.withExpandPlugin()
				n.claim("a", func(pv *v1.PersistentVolume) {
					if c.block {
						ofMode(v1.PersistentVolumeBlock)(pv)
					}
				})
				pod := podWith("1", "a")
				if c.block {
					withDevices(pod)
				}
				for range 2 {
					n.setSizes("a", "2Gi", "", "1Gi")
					m, stop := n.runUp(pod)
					expansions()
					require.Len(t, g.requests, 1)
					o := g.requests[0]
					g.requests = nil
					require.Equal(t, m.GetMountedVolumesForPod("1")["v0"].Path, o.VolumePath)
					require.NotEmpty(t, o.VolumePath)
					require.Equal(t, pod.UID, o.Pod.UID)
					require.Equal(t, "a", o.Claim.Name)
					require.Equal(t, c.attached, o.DevicePath != "")
					require.Equal(t, c.shared, o.DeviceMountPath != "")
					switch {
					case c.block:
						require.Equal(t, "/staged", o.DeviceStagePath)
					case c.shared:
						require.Equal(t, "mounts", filepath.Base(filepath.Dir(o.DeviceStagePath)))
						require.Equal(t, o.DeviceMountPath, o.DeviceStagePath)
					default:
						require.Empty(t, o.DeviceStagePath)
					}
					stop()
				}
			})
		})
	}
}

// TestFailedExpansionIsReported: each failed attempt to grow a volume is reported with its error;
// an unsupported expansion is reported once.
func TestFailedExpansionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		_, expansions := n.withExpandPlugin()
		n.claim("a")
		n.setSizes("a", "2Gi", "", "1Gi")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: volume.ErrTransient, Times: 2})
		_, stop := n.runUp(podWith("1", "a"))
		defer stop()
		reported := expansions()
		require.Len(t, reported, 3)
		require.ErrorIs(t, reported[0].Err, volume.ErrTransient)
		require.ErrorIs(t, reported[1].Err, volume.ErrTransient)
		require.NoError(t, reported[2].Err)

		n.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: volume.ErrNotSupported})
		n.setSizes("a", "3Gi", "", "2Gi")
		reported = expansions()
		require.Len(t, reported, 4)
		require.ErrorIs(t, reported[3].Err, volume.ErrNotSupported)
	})
}

// TestExpansionUsesWritablePath: an expand request has a writable path of the volume. The plugin is
// not called before a writable path exists.
func TestExpansionUsesWritablePath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{NoDeviceMount: true})
		g, expansions := n.withExpandPlugin()
		n.claim("a")
		n.setSizes("a", "2Gi", "", "1Gi")
		reads, looks, writes := podWith("1", "a"), podWith("2", "a"), podWith("3", "a")
		reads.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		looks.Spec.Containers[0].VolumeMounts[0].ReadOnly = true
		m, stop := n.runUp(reads)
		defer stop()
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: volume.ErrTransient})
		n.source.SetPod(writes)
		expansions()
		require.Empty(t, g.requests)
		n.plugin.ClearFaults()
		n.up(m, writes)
		n.source.SetPod(looks)
		n.up(m, looks)
		n.setSizes("a", "3Gi", "", "1Gi")
		expansions()
		require.Len(t, g.requests, 2)
		for _, o := range g.requests {
			require.Equal(t, m.GetMountedVolumesForPod("3")["v0"].Path, o.VolumePath)
		}
	})
}

// TestUnsupportedExpansionIsNoFailure: an expansion that the plugin does not support for this volume
// is no failure and is not retried.
func TestUnsupportedExpansionIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		})
		n.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: volume.ErrNotSupported})
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		n.setSizes("a", "2Gi", "", "")
		time.Sleep(time.Hour)
		require.Equal(t, 1, n.plugin.Calls(volumetest.NodeExpand))
		require.NotContains(t, n.reasons(), manager.VolumeResizeFailed)
		require.NoError(t, m.State().Volumes[0].Err)
		stop()
	})
}

// TestExpansionIsDoneOnce: a larger capacity is one expansion, with one event. A failed expansion is
// retried.
func TestExpansionIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		sized := func(size string) func(*v1.PersistentVolume) {
			return func(pv *v1.PersistentVolume) {
				pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
			}
		}
		n.claim("a", sized("1Gi"))
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		time.Sleep(time.Second)
		before := n.plugin.Calls(volumetest.NodeExpand)
		n.claim("a", sized("2Gi"))
		time.Sleep(time.Second)
		require.Equal(t, before+1, n.plugin.Calls(volumetest.NodeExpand))
		require.Contains(t, n.reasons(), manager.VolumeResizeSuccessful)
		time.Sleep(time.Hour)
		require.Equal(t, before+1, n.plugin.Calls(volumetest.NodeExpand), "once")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: errors.New("no"), Times: 1})
		n.claim("a", sized("3Gi"))
		time.Sleep(time.Minute)
		require.Contains(t, n.reasons(), manager.VolumeResizeFailed)
		require.Equal(t, before+3, n.plugin.Calls(volumetest.NodeExpand))
		stop()
	})
}

// TestRevertedSizeEndsExpansionFailure: the failure of an expansion is dropped when the requested
// size is reduced to the known size.
func TestRevertedSizeEndsExpansionFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		size := func(s string) func(*v1.PersistentVolume) {
			return func(pv *v1.PersistentVolume) {
				pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(s)}
			}
		}
		n.claim("a", size("1Gi"))
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		defer stop()
		time.Sleep(time.Second)
		n.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: errors.New("no luck")})
		n.claim("a", size("2Gi"))
		time.Sleep(time.Minute)
		require.ErrorContains(t, m.State().Volumes[0].Err, "no luck")
		n.claim("a", size("1Gi"))
		time.Sleep(time.Second)
		require.NoError(t, m.State().Volumes[0].Err)
	})
}
