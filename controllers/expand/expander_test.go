package expand_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newPlugins returns a register with plugins.
func newPlugins(t *testing.T, plugins ...volume.VolumePlugin) *volume.VolumePluginMgr {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	host, err := volume.NewHost(t.Context(), root)
	require.NoError(t, err)
	all, err := volume.NewVolumePluginMgr(t.Context(), host, plugins...)
	require.NoError(t, err)
	return all
}

// A plain plugin has no abilities.
type plain struct{ volume.VolumePlugin }

// A wrapper has the abilities of another plugin, and a name of its own.
type wrapper struct{ volume.VolumePlugin }

func (wrapper) GetPluginName() string { return "example.com/wrapper" }

func (w wrapper) Unwrap() volume.VolumePlugin { return w.VolumePlugin }

// TestPluginName: the name is that of the one plugin that supports a volume and expands it.
func TestPluginName(t *testing.T) {
	fake := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	second := volumetest.NewFakePlugin(volumetest.FakeConfig{Name: "example.com/second", CanSupport: func(*volume.Spec) bool { return true }})
	own := fake.NewSpec("disk", "/disks/one").PersistentVolume
	other := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	other.Spec.NFS = &v1.NFSVolumeSource{Server: "server", Path: "/disk"}
	nameless := own.DeepCopy()
	nameless.Name = ""
	for name, test := range map[string]struct {
		plugins []volume.VolumePlugin
		pv      *v1.PersistentVolume
		want    string
	}{
		"a plugin that expands":         {[]volume.VolumePlugin{fake}, own, "volumekit.io/fake"},
		"a wrapper":                     {[]volume.VolumePlugin{wrapper{fake}}, own, "example.com/wrapper"},
		"a plugin of other volumes":     {[]volume.VolumePlugin{fake}, other, ""},
		"a plugin without the ability":  {[]volume.VolumePlugin{plain{fake}}, own, ""},
		"two plugins of the volume":     {[]volume.VolumePlugin{fake, second}, own, ""},
		"two plugins, one of them fits": {[]volume.VolumePlugin{fake, second}, other, "example.com/second"},
		"an invalid volume":             {[]volume.VolumePlugin{fake}, nameless, ""},
		"no plugin":                     {nil, own, ""},
	} {
		t.Run(name, func(t *testing.T) {
			plugins := newPlugins(t, test.plugins...)
			require.Equal(t, test.want, expand.FromPlugins(plugins).Name(test.pv))
		})
	}
	t.Run("a plugin that is registered later", func(t *testing.T) {
		plugins := newPlugins(t)
		expander := expand.FromPlugins(plugins)
		require.NoError(t, plugins.Register(t.Context(), fake))
		require.Equal(t, "volumekit.io/fake", expander.Name(own))
	})
}

// An answer is a plugin that expands volumes with a fixed outcome, and keeps the last request.
type answer struct {
	volume.VolumePlugin
	result volume.ExpandResult
	err    error
	got    volume.ExpandRequest
}

func (a *answer) ExpandVolumeDevice(_ context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	a.got = req
	return a.result, a.err
}

// TestPluginExpand: the request reaches the plugin, and the result and the error of the plugin return unchanged.
func TestPluginExpand(t *testing.T) {
	fake := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	req := volume.ExpandRequest{Spec: fake.NewSpec("disk", "/disks/one"), NewSize: resource.MustParse("2Gi"), OldSize: resource.MustParse("1Gi")}
	broken := errors.New("disk is broken")
	for name, test := range map[string]struct {
		err  error
		kind volume.ErrorKind
	}{
		"success":             {nil, volume.Success},
		"final":               {broken, volume.Final},
		"infeasible":          {fmt.Errorf("%w: %w", broken, volume.ErrInfeasible), volume.Final},
		"transient":           {volume.AsTransient(broken), volume.Transient},
		"failed precondition": {fmt.Errorf("in use: %w", volume.ErrFailedPrecondition), volume.Transient},
		"uncertain":           {volume.AsUncertain(broken), volume.Uncertain},
	} {
		for _, onNode := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/on a node=%t", name, onNode), func(t *testing.T) {
				plugin := &answer{VolumePlugin: fake, err: test.err, result: volume.ExpandResult{Size: resource.MustParse("3Gi"), NodeExpansionRequired: onNode}}
				result, err := expand.FromPlugins(newPlugins(t, plugin)).Expand(t.Context(), req)
				require.Equal(t, test.err, err)
				require.Equal(t, test.kind, volume.KindOf(err))
				require.Equal(t, plugin.result, result)
				require.Equal(t, req, plugin.got)
			})
		}
	}
}

// TestPluginLookup: a call that finds no plugin has changed nothing, and says nothing of an earlier call whose outcome is open.
func TestPluginLookup(t *testing.T) {
	fake := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	second := volumetest.NewFakePlugin(volumetest.FakeConfig{Name: "example.com/second", CanSupport: func(*volume.Spec) bool { return true }})
	req := volume.ExpandRequest{Spec: fake.NewSpec("disk", "/disks/one"), NewSize: resource.MustParse("2Gi"), OldSize: resource.MustParse("1Gi")}
	for name, test := range map[string]struct {
		plugins []volume.VolumePlugin
		is      error
		text    string
	}{
		"no plugin":       {nil, volume.ErrNoPluginMatched, "no volume plugin matched"},
		"two plugins":     {[]volume.VolumePlugin{fake, second}, nil, "multiple volume plugins matched: example.com/second, volumekit.io/fake"},
		"without ability": {[]volume.VolumePlugin{plain{fake}}, volume.ErrNotSupported, "no plugin expands the volume"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := expand.FromPlugins(newPlugins(t, test.plugins...)).Expand(t.Context(), req)
			require.ErrorContains(t, err, test.text)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
			require.Equal(t, volume.Transient, volume.KindOf(err))
		})
	}
	require.Zero(t, fake.Calls(volumetest.ExpandVolumeDevice)+second.Calls(volumetest.ExpandVolumeDevice))
}

// TestFromPlugins: the volume of a plugin grows on the storage and on its node. A size that the plugin refuses is
// given up for a smaller request.
func TestFromPlugins(t *testing.T) {
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{MaxSize: 4 << 30})
	plugins := newPlugins(t, plugin)
	inWorld(t, func(w *world) {
		w.config.Expander = expand.FromPlugins(plugins)
		spec := plugin.NewSpec("disk", "/disks/one")
		_, err := newPair(w.Context(), w.Cluster, spec.PersistentVolume.Spec.PersistentVolumeSource)
		require.NoError(w, err)
		growOnNode := func(size string) {
			w.Helper()
			able, ok, err := volume.FindBySpec[volume.NodeExpandableVolumePlugin](plugins, volume.NewSpecFromPersistentVolume(w.volume(), false))
			require.NoError(w, err)
			require.True(w, ok)
			isDone, err := able.NodeExpand(w.Context(), volume.NodeResizeOptions{Spec: spec, NewSize: resource.MustParse(size)})
			require.NoError(w, err)
			require.True(w, isDone)
			w.finishOnNode()
			w.Wait(time.Second)
		}
		w.start()
		w.request("2Gi")
		w.Wait(time.Second)
		require.Equal(w, "capacity 1Gi, volume 2Gi, NodeResizePending 2Gi, FileSystemResizePending=True, Resizing=True, pre-resize-capacity=1Gi", w.state())
		require.Equal(w, "volumekit.io/fake", w.claim().Annotations[expand.ResizerAnnotation])
		growOnNode("2Gi")
		require.Equal(w, "capacity 2Gi, volume 2Gi", w.state())
		w.Announced()

		w.request("8Gi")
		w.Wait(time.Minute)
		require.Equal(w, "capacity 2Gi, volume 2Gi, ControllerResizeInfeasible 8Gi, ControllerResizeError=True, Resizing=True", w.state())
		require.Equal(w, []string{
			"Normal Resizing: resizing volume disk to 8Gi",
			`Warning VolumeResizeFailed: volumekit.io/fake failed to resize the volume: expand volume "disk": infeasible`,
		}, w.Announced())
		require.Equal(w, 2, plugin.Calls(volumetest.ExpandVolumeDevice))
		w.request("3Gi")
		w.Wait(time.Second)
		require.Equal(w, "capacity 2Gi, volume 3Gi, NodeResizePending 3Gi, FileSystemResizePending=True, Resizing=True, pre-resize-capacity=2Gi", w.state())
		growOnNode("3Gi")
		require.Equal(w, "capacity 3Gi, volume 3Gi", w.state())
		require.Equal(w, 3, plugin.Calls(volumetest.ExpandVolumeDevice))
	})
}
