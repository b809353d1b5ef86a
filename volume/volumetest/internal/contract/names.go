package contract

import (
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/volume"
)

func (c *contract) name() {
	name := c.New(c.host, c.mounter).GetPluginName()
	require.Equal(c, c.plugin.GetPluginName(), name, "a plugin's name needs no Init")
	require.True(c, strings.Contains(name, "/"), "a plugin's name needs a namespace: %q", name)
	_, err := volume.EscapeQualifiedName(name)
	require.NoError(c, err)
}

func (c *contract) volumeName() {
	spec, other := c.spec(), c.spec()
	name, err := c.plugin.GetVolumeName(spec)
	require.NoError(c, err)
	require.NotEmpty(c, name)

	same := copyOf(spec)
	same.ReadOnly = !spec.ReadOnly
	for range 3 {
		again, err := c.plugin.GetVolumeName(same)
		require.NoError(c, err)
		require.Equal(c, name, again, "the same storage, however it is used")
	}
	different, err := c.plugin.GetVolumeName(other)
	require.NoError(c, err)
	require.NotEqual(c, name, different, "different storage")
	for what, spec := range unsupportedSpecs() {
		_, err := c.plugin.GetVolumeName(spec)
		require.Error(c, err, what)
	}
}

func (c *contract) canSupport() {
	require.True(c, c.plugin.CanSupport(c.spec()))
	for what, spec := range unsupportedSpecs() {
		require.False(c, c.plugin.CanSupport(spec), what)
	}
	for _, spec := range c.Unsupported {
		require.False(c, c.plugin.CanSupport(spec), spec.Name())
	}
}

func (c *contract) registry() {
	found, err := c.mgr.FindPluginBySpec(c.spec())
	require.NoError(c, err)
	require.Equal(c, c.plugin.GetPluginName(), found.GetPluginName())
	_, err = c.mgr.FindPluginByName(c.plugin.GetPluginName())
	require.NoError(c, err)
	for _, spec := range c.Unsupported {
		_, err = c.mgr.FindPluginBySpec(spec)
		require.ErrorIs(c, err, volume.ErrNoPluginMatched, spec.Name())
	}
	require.Error(c, c.mgr.Register(c.Context(), c.New(c.host, c.mounter)), "one name, two plugins")
}

// podVolumePath returns the path at which the pod's volume is set up.
func (c *contract) podVolumePath(spec *volume.Spec) (string, error) {
	dir, err := c.host.PodVolumeDir(c.pod.UID, c.plugin.GetPluginName(), spec.Name())
	return filepath.Join(dir, c.Directory), err
}

func (c *contract) newChangesNothing() {
	spec, before := c.spec(), c.state()
	mounter, unmounter := c.newMounter(spec), c.newUnmounter(spec)
	want, err := c.podVolumePath(spec)
	require.NoError(c, err)
	require.Equal(c, want, mounter.GetPath())
	require.Equal(c, want, unmounter.GetPath())
	c.requireAttributes(mounter, spec)
	c.requireUnchanged(before, "NewMounter or NewUnmounter changed something")
}

func (c *contract) nothingToNew() {
	before := c.state()
	for what, spec := range unsupportedSpecs() {
		_, err := c.plugin.NewMounter(spec, c.pod)
		c.requireRefused(err, "specification: "+what)
	}
	for _, spec := range c.Unsupported {
		_, err := c.plugin.NewMounter(spec, c.pod)
		require.Error(c, err, spec.Name())
	}
	_, err := c.plugin.NewMounter(c.unchangedSpec(c.Spec()), nil)
	c.requireRefused(err, "no pod")
	c.requireUnchanged(before, "a refused specification changed something")
}

func (c *contract) invalidSpecs() {
	before := c.state()
	for what, spec := range c.Invalid {
		require.True(c, c.plugin.CanSupport(spec), "%s: of the kind, though invalid", what)
		_, err := c.plugin.NewMounter(spec, c.pod)
		c.requireRefused(err, what)
	}
	c.requireUnchanged(before, "a refused specification changed something")
}

// requireAttributes verifies that a read-only specification is reported as read-only. A plugin
// whose volumes are never writable may report that for all.
func (c *contract) requireAttributes(mounter volume.Mounter, spec *volume.Spec) {
	c.Helper()
	is := mounter.GetAttributes().ReadOnly
	require.True(c, is == spec.IsReadOnly() || is && c.RuntimeReadOnly,
		"read-only by its attributes: %t, by its specification: %t%s", is, spec.IsReadOnly(), hintIf(is, hintNeverWritable))
}

// badNames: invalid names must not become part of a path.
func (c *contract) badNames() {
	before := c.state()
	for _, bad := range []string{"", ".", "..", "a/b", "../../etc", "a\x00b", strings.Repeat("a", 256)} {
		spec := copyOf(c.Spec())
		rename(spec, bad)
		_, err := c.plugin.NewMounter(spec, c.pod)
		c.requireRefused(err, "volume name")
		_, err = c.plugin.NewMounter(c.unchangedSpec(c.Spec()), newPod(types.UID(bad)))
		c.requireRefused(err, "pod UID")
		_, err = c.plugin.NewUnmounter(bad, c.pod.UID)
		c.requireRefused(err, "volume name")
		_, err = c.plugin.NewUnmounter("data", types.UID(bad))
		c.requireRefused(err, "pod UID")
		_, err = c.plugin.ConstructVolumeSpec(c.Context(), bad, c.newMounter(c.unchangedSpec(c.Spec())).GetPath())
		require.Error(c, err)
	}
	c.requireUnchanged(before, "a refused name changed something")
}

func rename(spec *volume.Spec, name string) {
	if spec.Volume != nil {
		spec.Volume.Name = name
	}
	if spec.PersistentVolume != nil {
		spec.PersistentVolume.Name = name
	}
}
