package contract

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// A block is a raw device for a pod.
type block struct {
	*contract
	spec  *volume.Spec
	pod   *v1.Pod
	paths volume.BlockVolumePaths
}

// block returns a new raw device, or skips the test if the plugin has none.
func (c *contract) block() block {
	c.Helper()
	_, able := volume.As[volume.BlockVolumePlugin](c.plugin)
	if !able || c.NoBlock {
		c.Skip("the plugin's volumes are no raw devices")
	}
	require.NotNil(c, c.BlockSpec, "the plugin is a BlockVolumePlugin: the configuration needs BlockSpec, or NoBlock")
	return c.blockOf(c.unchangedSpec(c.BlockSpec()))
}

func (c *contract) blockOf(spec *volume.Spec) block {
	c.Helper()
	b := block{contract: c, spec: spec, pod: c.pod}
	var err error
	b.paths.GlobalMapPath, err = b.unmapper().GetGlobalMapPath(spec)
	require.NoError(c, err)
	return b
}

// forPod returns the same volume for another pod.
func (b block) forPod(uid types.UID) block {
	b.pod = newPod(uid)
	return b
}

func (c *contract) blockPlugin(p volume.VolumePlugin) volume.BlockVolumePlugin {
	c.Helper()
	able, ok := volume.As[volume.BlockVolumePlugin](p)
	require.True(c, ok)
	return able
}

// mapper and unmapper return those of a program that has just started.
func (b block) mapper() volume.BlockVolumeMapper {
	b.Helper()
	m, err := b.blockPlugin(b.restarted()).NewBlockVolumeMapper(b.spec, b.pod)
	require.NoError(b, err)
	return m
}

func (b block) unmapper() volume.BlockVolumeUnmapper {
	b.Helper()
	u, err := b.blockPlugin(b.restarted()).NewBlockVolumeUnmapper(b.spec.Name(), b.pod.UID)
	require.NoError(b, err)
	return u
}

func (b block) path() string {
	b.Helper()
	dir, name := b.unmapper().GetPodDeviceMapPath()
	return filepath.Join(dir, name)
}

func (b block) construct(ctx context.Context) (volume.ReconstructedVolume, error) {
	b.Helper()
	return b.blockPlugin(b.restarted()).ConstructBlockVolumeSpec(ctx, b.pod.UID, b.spec.Name(), b.path())
}

// tearDownDevice calls TearDownDevice, as after the last pod.
func (b block) tearDownDevice(ctx context.Context) error {
	b.Helper()
	return b.unmapper().TearDownDevice(ctx, b.paths)
}

func (b block) requireMapped() {
	b.Helper()
	_, err := os.Lstat(b.path())
	require.NoError(b, err, "a device that is mapped is at the pod's path")
	b.requireMeasured()
}

func (b block) requireMeasured() {
	b.Helper()
	if b.NoMetrics {
		return
	}
	for _, v := range []volume.BlockVolume{b.mapper(), b.unmapper()} {
		metrics, err := v.GetMetrics(b.Context())
		require.NoError(b, err)
		require.NotNil(b, metrics.Capacity)
		require.Positive(b, metrics.Capacity.Value())
		require.False(b, metrics.Time.IsZero())
	}
}

func (b block) requireUnmapped() {
	b.Helper()
	_, err := os.Lstat(b.path())
	require.ErrorIs(b, err, fs.ErrNotExist, "a device that is not mapped is at the pod's path")
	found, err := b.construct(b.Context())
	require.ErrorIs(b, err, volume.ErrNotMounted)
	require.Zero(b, found)
	for _, v := range []volume.BlockVolume{b.mapper(), b.unmapper()} {
		_, err := v.GetMetrics(b.Context())
		require.ErrorIs(b, err, volume.ErrNotMounted)
	}
}

// mustMap maps the device and returns its path.
func (b block) mustMap() string {
	b.Helper()
	device, err := b.mapper().MapPodDevice(b.Context(), b.paths)
	require.NoError(b, err)
	require.True(b, filepath.IsAbs(device), "the path of a device: %q", device)
	_, err = os.Stat(device)
	require.NoError(b, err, "the device is there")
	return device
}

func (b block) requireGone() {
	b.Helper()
	for range 2 {
		require.NoError(b, b.unmapper().UnmapPodDevice(b.Context()))
		b.requireUnmapped()
	}
	for range 2 {
		require.NoError(b, b.tearDownDevice(b.Context()))
	}
}

// blockLife makes each call twice, each time after a restart, for two pods.
func (c *contract) blockLife() {
	one := c.block()
	two := one.forPod("pod-uid-2")
	dir, name := one.mapper().GetPodDeviceMapPath()
	want, err := c.host.PodVolumeDeviceDir(c.pod.UID, c.plugin.GetPluginName())
	require.NoError(c, err)
	require.Equal(c, want, dir)
	require.Equal(c, one.spec.Name(), name)
	one.requireUnmapped()
	one.requireGone() // a device that is not mapped
	for range 2 {
		for range 2 {
			staged, err := one.mapper().SetUpDevice(c.Context(), one.paths)
			require.NoError(c, err)
			if one.paths.StagingPath != "" {
				require.Equal(c, one.paths.StagingPath, staged, "the device is staged already")
			}
			one.paths.StagingPath, two.paths.StagingPath = staged, staged
		}
		one.requireUnmapped()
		device := one.mustMap()
		require.Equal(c, device, one.mustMap(), "it is mapped already")
		one.requireMapped()
		two.requireUnmapped()
		two.mustMap()
		two.requireMapped()
		for range 2 {
			require.NoError(c, one.unmapper().UnmapPodDevice(c.Context()))
			one.requireUnmapped()
			two.requireMapped()
		}
		two.requireGone()
	}
}

func (c *contract) blockConstruct() {
	b := c.block()
	b.mustMap()
	recovered, err := b.construct(c.Context())
	require.NoError(c, err)
	found := recovered.Spec
	require.NoError(c, found.Validate())
	require.Equal(c, b.spec.Name(), found.Name())
	require.True(c, found.IsBlock(), "a volume that was mapped comes back as one to mount")
	require.True(c, c.plugin.CanSupport(found))
	want, err := c.plugin.GetVolumeName(b.spec)
	require.NoError(c, err)
	have, err := c.plugin.GetVolumeName(found)
	require.NoError(c, err)
	require.Equal(c, want, have)
	again := c.blockOf(found)
	before := c.state()
	again.mustMap()
	c.requireUnchanged(before, "mapping what is mapped changed something")
	again.requireGone()
	again.mustMap()
	b.requireGone()
}

func (c *contract) blockEndedContext() {
	b := c.block()
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	before := c.state()
	_, err := b.mapper().SetUpDevice(ended, b.paths)
	require.ErrorIs(c, err, context.Canceled)
	_, err = b.mapper().MapPodDevice(ended, b.paths)
	require.ErrorIs(c, err, context.Canceled)
	c.requireUnchanged(before, "mapping with an ended context changed something")
	b.mustMap()
	before = c.state()
	require.ErrorIs(c, b.unmapper().UnmapPodDevice(ended), context.Canceled)
	_, err = b.construct(ended)
	require.ErrorIs(c, err, context.Canceled)
	if !c.NoMetrics {
		_, err = b.mapper().GetMetrics(ended)
		require.ErrorIs(c, err, context.Canceled)
	}
	c.requireUnchanged(before, "a verb with an ended context changed something")
	b.requireMapped()
	require.NoError(c, b.unmapper().UnmapPodDevice(c.Context()))
	before = c.state()
	require.ErrorIs(c, b.tearDownDevice(ended), context.Canceled)
	c.requireUnchanged(before, "TearDownDevice with an ended context changed something")
	b.requireGone()
}

// blockAtOnce: two pods, and concurrent calls of all methods for each of them, on one plugin.
func (c *contract) blockAtOnce() {
	b := c.block()
	b.mustMap()
	b.requireGone()
	plugin := c.blockPlugin(c.plugin)
	for _, uid := range []types.UID{"pod-uid-1", "pod-uid-2"} {
		c.allAtOnce(func() error {
			m, err := plugin.NewBlockVolumeMapper(b.spec, newPod(uid))
			if err != nil {
				return err
			}
			u, err := plugin.NewBlockVolumeUnmapper(b.spec.Name(), uid)
			if err != nil {
				return err
			}
			return b.forPod(uid).mapAndUnmap(plugin, m, u)
		})
	}
	b.forPod("pod-uid-2").mustMap()
	b.mustMap()
	require.NoError(c, b.forPod("pod-uid-2").unmapper().UnmapPodDevice(c.Context()))
	b.requireGone()
}

func (b block) mapAndUnmap(plugin volume.BlockVolumePlugin, m volume.BlockVolumeMapper, u volume.BlockVolumeUnmapper) error {
	dir, entry := m.GetPodDeviceMapPath()
	for range 3 {
		_, mapped := m.MapPodDevice(b.Context(), b.paths)
		_, found := plugin.ConstructBlockVolumeSpec(b.Context(), b.pod.UID, b.spec.Name(), filepath.Join(dir, entry))
		_, measured := m.GetMetrics(b.Context())
		unmapped := u.UnmapPodDevice(b.Context())
		if err := errors.Join(mapped, ignoreBusy(unmapped), ignoreGone(found), b.ignoreWithoutMetrics(measured)); err != nil {
			return err
		}
	}
	return nil
}

// blockBad: unsupported specifications, and names that must not become part of a path.
func (c *contract) blockBad() {
	b := c.block()
	plugin, before := c.blockPlugin(c.plugin), c.state()
	for what, spec := range unsupportedSpecs() {
		_, err := plugin.NewBlockVolumeMapper(spec, c.pod)
		c.requireRefused(err, what)
	}
	for _, spec := range c.Unsupported {
		_, err := plugin.NewBlockVolumeMapper(spec, c.pod)
		require.Error(c, err, spec.Name())
	}
	_, err := plugin.NewBlockVolumeMapper(b.spec, nil)
	c.requireRefused(err, "no pod")
	for _, bad := range []string{"", ".", "..", "a/b", "../../etc", "a\x00b", strings.Repeat("a", 256)} {
		spec := copyOf(b.spec)
		rename(spec, bad)
		_, err := plugin.NewBlockVolumeMapper(spec, c.pod)
		c.requireRefused(err, "volume name")
		_, err = plugin.NewBlockVolumeMapper(b.spec, newPod(types.UID(bad)))
		c.requireRefused(err, "pod UID")
		_, err = plugin.NewBlockVolumeUnmapper(bad, c.pod.UID)
		c.requireRefused(err, "volume name")
		_, err = plugin.NewBlockVolumeUnmapper("data", types.UID(bad))
		c.requireRefused(err, "pod UID")
		_, err = plugin.ConstructBlockVolumeSpec(c.Context(), c.pod.UID, bad, b.path())
		require.Error(c, err)
	}
	c.requireUnchanged(before, "what was refused changed something")
}

// blockKeepsStray: a file that is not a device of the plugin stays.
func (c *contract) blockKeepsStray() {
	b := c.block()
	file := b.path()
	require.NoError(c, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(c, os.WriteFile(file, []byte("precious"), 0o600))
	_, err := b.mapper().MapPodDevice(c.Context(), b.paths)
	require.Error(c, err, "a file is in the way")
	_ = b.unmapper().UnmapPodDevice(c.Context())
	data, err := os.ReadFile(file)
	require.NoError(c, err)
	require.Equal(c, "precious", string(data))
	require.NoError(c, os.Remove(file))
	b.requireGone()
}

// blockLeavesNothing is leavesNothing for raw devices.
func (c *contract) blockLeavesNothing() {
	b := c.block()
	life := func() {
		_, err := b.mapper().SetUpDevice(c.Context(), b.paths)
		require.NoError(c, err)
		b.mustMap()
		_, err = b.construct(c.Context())
		require.NoError(c, err)
		_, _ = b.mapper().GetMetrics(c.Context())
		b.requireGone()
	}
	life()
	check, before := mounttest.NoLeaks(c), c.stateWithoutKept()
	for range 5 {
		life()
	}
	require.Equal(c, before, c.stateWithoutKept(), "something is left of devices that are gone")
	check()
}
