package reconstruction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// A slowPlugin waits in ConstructVolumeSpec until unblock is closed. It ignores its context.
type slowPlugin struct {
	*volumetest.FakePlugin
	unblock chan struct{}
	queries atomic.Int64
}

func (p *slowPlugin) ConstructVolumeSpec(ctx context.Context, name, path string) (volume.ReconstructedVolume, error) {
	p.queries.Add(1)
	<-p.unblock
	return p.FakePlugin.ConstructVolumeSpec(context.WithoutCancel(ctx), name, path)
}

// A scopedPlugin returns a scope for unrecognized directories, or panics.
type scopedPlugin struct {
	*volumetest.FakePlugin
	panics bool
}

func (p scopedPlugin) GetLeftoverScope(_ context.Context, dir volume.LeftoverDir) (volume.LeftoverScope, error) {
	if p.panics {
		panic("no luck")
	}
	return volume.LeftoverScope{VolumeName: dir.VolumeName}, nil
}

// newHost returns a host, a kernel and a directory to mount.
func newHost(t *testing.T) (host *volume.Host, kernel *mounttest.Fake, source string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir+"/root", 0o755))
	require.NoError(t, os.MkdirAll(dir+"/disk", 0o755))
	host, err = volume.NewHost(t.Context(), dir+"/root")
	require.NoError(t, err)
	return host, mounttest.NewFake(mount.Config{}), dir + "/disk"
}

// newReconstructor returns a reconstructor that counts late results.
func newReconstructor(t *testing.T, host *volume.Host, plugins ...volume.VolumePlugin) (r *Reconstructor, late *atomic.Int64) {
	t.Helper()
	all, err := volume.NewVolumePluginMgr(t.Context(), host, plugins...)
	require.NoError(t, err)
	late = &atomic.Int64{}
	return &Reconstructor{Plugins: all, Wake: func() { late.Add(1) }}, late
}

// escaped returns the name of a plugin in paths.
func escaped(t *testing.T, plugin volume.VolumePlugin) string {
	t.Helper()
	name, err := volume.EscapeQualifiedName(plugin.GetPluginName())
	require.NoError(t, err)
	return name
}

// setUp sets a volume up in the pod "a", and returns its directory.
func setUp(t *testing.T, plugin volume.VolumePlugin, spec *volume.Spec) poddirs.Volume {
	t.Helper()
	pod := &v1.Pod{}
	pod.UID = "a"
	m, err := plugin.NewMounter(spec, pod)
	require.NoError(t, err)
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
	return poddirs.Volume{Pod: "a", Plugin: escaped(t, plugin), Name: spec.Name(), Path: m.GetPath()}
}

// TestReconstructedVolumeIsUncertain: a reconstructed volume is uncertain in its pod, and in the shared steps that its
// plugin has.
func TestReconstructedVolumeIsUncertain(t *testing.T) {
	for name, test := range map[string]struct {
		fake             volumetest.FakeConfig
		attached, device actual.State
	}{
		"per pod":        {volumetest.FakeConfig{NoAttach: true, NoDeviceMount: true}, actual.Absent, actual.Absent},
		"attached":       {volumetest.FakeConfig{NoDeviceMount: true}, actual.Uncertain, actual.Absent},
		"device-mounted": {volumetest.FakeConfig{NoAttach: true}, actual.Absent, actual.Uncertain},
		"both":           {volumetest.FakeConfig{}, actual.Uncertain, actual.Uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			host, kernel, source := newHost(t)
			test.fake.Mounter = kernel
			plugin := volumetest.NewFakePlugin(test.fake)
			r, _ := newReconstructor(t, host, plugin)
			found := setUp(t, plugin, plugin.NewSpec("vol", source))
			results := r.All(t.Context(), []poddirs.Volume{found}, time.Minute)
			require.Len(t, results, 1)
			v := results[0].Actual
			require.NoError(t, results[0].Err)
			require.Equal(t, found, results[0].Found)
			require.Equal(t, source, v.Name)
			require.Equal(t, "vol", v.Spec.Name())
			require.Equal(t, [2]actual.State{test.attached, test.device}, [2]actual.State{v.Attached, v.Device})
			require.Equal(t, test.device != actual.Absent, v.DeviceMountPath != "")
			key := naming.PodKey{Pod: "a", Name: "vol"}
			require.Equal(t, actual.Uncertain, v.StateOf(key))
			require.Equal(t, key, v.LastPod)
			require.Equal(t, v.Traits.UniqueName(v.Plugin, v.Name, "a"), results[0].Unique)
		})
	}
}

// TestUnrecognizedDirectoryIsError: a directory without a plugin, or that its plugin does not recognize, is an error.
// An uncertain error of a volume that exists only in its pod is a half set-up volume.
func TestUnrecognizedDirectoryIsError(t *testing.T) {
	failure := errors.New("no luck")
	for name, test := range map[string]struct {
		plugin string // escaped; empty: the registered one
		err    error  // of ConstructVolumeSpec
		perPod bool
		want   error // nil: reconstructed
	}{
		"no such plugin":       {"example.com~other", nil, false, volume.ErrNoPluginMatched},
		"unrecognized":         {"", failure, false, failure},
		"not mounted":          {"", volume.ErrNotMounted, false, nil},
		"uncertain":            {"", volume.ErrUncertain, false, volume.ErrUncertain},
		"uncertain in its pod": {"", volume.ErrUncertain, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			host, kernel, _ := newHost(t)
			fake := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel})
			var plugin volume.VolumePlugin = fake
			if test.perPod {
				plugin = onlyPerPod{fake}
			}
			r, _ := newReconstructor(t, host, plugin)
			if test.err != nil {
				fake.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Err: test.err})
			}
			found := poddirs.Volume{Pod: "a", Plugin: test.plugin, Name: "vol", Path: "/vol"}
			if found.Plugin == "" {
				found.Plugin = escaped(t, fake)
			}
			result := r.All(t.Context(), []poddirs.Volume{found}, time.Minute)[0]
			require.ErrorIs(t, result.Err, test.want)
			require.Equal(t, test.want == nil, result.Actual != nil)
			if result.Actual != nil {
				require.Nil(t, result.Actual.Spec)
				require.Equal(t, actual.Uncertain, result.Actual.StateOf(naming.PodKey{Pod: "a", Name: "vol"}))
			}
		})
	}
}

// onlyPerPod is a plugin without abilities.
type onlyPerPod struct{ volume.VolumePlugin }

// TestLeftoverScopeIsThePlugins: an unrecognized directory has the scope that its plugin returns; none after a panic.
func TestLeftoverScopeIsThePlugins(t *testing.T) {
	for _, panics := range []bool{false, true} {
		host, kernel, _ := newHost(t)
		plugin := scopedPlugin{volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel}), panics}
		plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Err: errors.New("no luck")})
		r, _ := newReconstructor(t, host, plugin)
		found := poddirs.Volume{Pod: "a", Plugin: escaped(t, plugin), Name: "vol~r", Path: "/vol~r"}
		result := r.All(t.Context(), []poddirs.Volume{found}, time.Minute)[0]
		require.Error(t, result.Err)
		require.Equal(t, map[bool]string{false: "vol", true: ""}[panics], result.Scope.VolumeName, "a view has the scope of its volume")
	}
}

// TestSlowPlugin: a plugin that does not respond within the patience delays its callers once, however
// many directories it has, and no other plugin. Each directory is queried once, and its result is
// late.
func TestSlowPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, kernel, source := newHost(t)
		slow := &slowPlugin{FakePlugin: volumetest.NewFakePlugin(volumetest.FakeConfig{Name: "example.com/slow", Mounter: kernel}), unblock: make(chan struct{})}
		other := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel})
		r, late := newReconstructor(t, host, slow, other)
		found := []poddirs.Volume{setUp(t, other, other.NewSpec("vol", source))}
		const count = 2 * maxConcurrent
		for i := range count {
			found = append(found, poddirs.Volume{Pod: "b", Plugin: "example.com~slow", Name: fmt.Sprint("vol-", i), Path: fmt.Sprint("/vol-", i)})
		}
		begin := time.Now()
		for range 2 { // the second call starts no further queries
			results := r.All(t.Context(), found, StartPatience)
			require.NoError(t, results[0].Err)
			for _, result := range results[1:] {
				require.ErrorIs(t, result.Err, errPluginSlow)
			}
			require.Equal(t, StartPatience, time.Since(begin))
		}
		require.Empty(t, r.DrainLate())

		close(slow.unblock)
		synctest.Wait()
		require.EqualValues(t, count, slow.queries.Load())
		require.EqualValues(t, count, late.Load())
		require.Len(t, r.DrainLate(), count)
		require.Empty(t, r.DrainLate())
	})
}

// TestEndedContext: an ended context ends the wait for a slow plugin.
func TestEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, kernel, _ := newHost(t)
		slow := &slowPlugin{FakePlugin: volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel}), unblock: make(chan struct{})}
		r, _ := newReconstructor(t, host, slow)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		found := poddirs.Volume{Pod: "a", Plugin: escaped(t, slow), Name: "vol", Path: "/vol"}
		require.ErrorIs(t, r.All(ctx, []poddirs.Volume{found}, time.Hour)[0].Err, errPluginSlow)
		require.Equal(t, time.Second, time.Since(begin))
		close(slow.unblock)
	})
}
