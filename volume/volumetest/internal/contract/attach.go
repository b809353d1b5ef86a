package contract

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/volume"
)

const (
	nodeOne types.NodeName = "node-1"
	nodeTwo types.NodeName = "node-2"
)

// An attachment is a volume that must be attached to a node.
type attachment struct {
	*contract
	spec     *volume.Spec
	name     string
	attacher volume.Attacher
	detacher volume.Detacher
}

// attachment returns a volume that is not attached, or skips the test.
func (c *contract) attachment() attachment {
	c.Helper()
	plugin, ok := volume.As[volume.AttachableVolumePlugin](c.plugin)
	if !ok {
		c.Skip("the plugin's volumes are not attached")
	}
	spec := c.unchangedSpec(c.Spec())
	can, err := plugin.CanAttach(c.Context(), spec)
	require.NoError(c, err)
	if !can {
		c.Skip("the plugin's volumes are not attached")
	}
	a := attachment{contract: c, spec: spec}
	a.name, err = c.plugin.GetVolumeName(spec)
	require.NoError(c, err)
	a.attacher, err = plugin.NewAttacher()
	require.NoError(c, err)
	a.detacher, err = plugin.NewDetacher()
	require.NoError(c, err)
	return a
}

// withModes returns the same volume with other access modes, or skips the test.
func (a attachment) withModes(modes ...v1.PersistentVolumeAccessMode) attachment {
	a.Helper()
	a.spec = copyOf(a.spec)
	if a.spec.PersistentVolume == nil {
		a.Skip("the volume is written in a pod: it has no access modes")
	}
	a.spec.PersistentVolume.Spec.AccessModes = modes
	return a
}

func (a attachment) attach(node types.NodeName) (devicePath string) {
	a.Helper()
	path, err := a.attacher.Attach(a.Context(), a.spec, node)
	require.NoError(a, err)
	return path
}

// detach detaches by name, as after a restart, or by specification.
func (a attachment) detach(node types.NodeName, spec *volume.Spec) {
	a.Helper()
	require.NoError(a, a.detacher.Detach(a.Context(), volume.DetachRequest{VolumeName: a.name, Node: node, Spec: spec}))
}

func (a attachment) requireAttached(node types.NodeName) {
	a.Helper()
	a.requireState(node, true)
}

func (a attachment) requireNotAttached(node types.NodeName) {
	a.Helper()
	a.requireState(node, false)
}

// requireState verifies whether the volume is attached to a node, by two equal specifications.
func (a attachment) requireState(node types.NodeName, want bool) {
	a.Helper()
	same := copyOf(a.spec)
	attached, err := a.attacher.VolumesAreAttached(a.Context(), []*volume.Spec{a.spec, same}, node)
	require.NoError(a, err)
	require.Equal(a, map[*volume.Spec]bool{a.spec: want, same: want}, attached, "an entry for each specification")
}

// attach makes each call twice, and detaches in both ways.
func (c *contract) attach() {
	a := c.attachment()
	for _, spec := range []*volume.Spec{nil, a.spec} {
		a.requireNotAttached(nodeOne)
		a.detach(nodeOne, spec) // not attached yet
		path := a.attach(nodeOne)
		require.Equal(c, path, a.attach(nodeOne), "it is attached already")
		a.requireAttached(nodeOne)
		a.requireNotAttached(nodeTwo)
		found, err := a.attacher.WaitForAttach(c.Context(), a.spec, path, c.pod)
		require.NoError(c, err)
		again, err := a.attacher.WaitForAttach(c.Context(), a.spec, path, c.pod)
		require.NoError(c, err)
		require.Equal(c, found, again)
		a.detach(nodeTwo, spec)
		a.requireAttached(nodeOne)
		a.detach(nodeOne, spec)
		a.requireNotAttached(nodeOne)
		a.detach(nodeOne, spec)
	}
	for what, spec := range unsupportedSpecs() {
		_, err := a.attacher.Attach(c.Context(), spec, nodeOne)
		require.Error(c, err, what)
	}
}

// attachElsewhere: a volume whose access modes allow one node is attached to one.
func (c *contract) attachElsewhere() {
	for _, mode := range []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod} {
		a := c.attachment().withModes(mode)
		if c.SharedAttach {
			c.Skip("the configuration says that the caller sees to it")
		}
		a.attach(nodeOne)
		for range 2 {
			_, err := a.attacher.Attach(c.Context(), a.spec, nodeTwo)
			var dangling *volume.DanglingAttachError
			require.ErrorAs(c, err, &dangling)
			require.Equal(c, nodeOne, dangling.CurrentNode)
			require.Equal(c, volume.Transient, volume.KindOf(err))
			a.requireAttached(nodeOne)
			a.requireNotAttached(nodeTwo)
		}
		a.detach(nodeOne, a.spec)
		a.attach(nodeTwo)
		a.detach(nodeTwo, nil)
	}
}

// attachTooMany: a full node accepts another volume after one is detached.
func (c *contract) attachTooMany() {
	a := c.attachment()
	if c.MaxVolumes == 0 {
		c.Skip("the configuration has no limit")
	}
	first := a
	for range c.MaxVolumes {
		a.attach(nodeOne)
		defer a.detach(nodeOne, a.spec)
		a = c.attachment()
	}
	for range 2 {
		_, err := a.attacher.Attach(c.Context(), a.spec, nodeOne)
		require.ErrorIs(c, err, volume.ErrMaxVolumeCountExceeded)
		require.Equal(c, volume.Transient, volume.KindOf(err))
		a.requireNotAttached(nodeOne)
	}
	first.attach(nodeOne) // attached already
	a.attach(nodeTwo)
	a.detach(nodeTwo, a.spec)
	first.detach(nodeOne, first.spec)
	a.attach(nodeOne)
	a.detach(nodeOne, a.spec)
}

func (c *contract) attachEndedContext() {
	a := c.attachment()
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	_, err := a.attacher.Attach(ended, a.spec, nodeOne)
	require.ErrorIs(c, err, context.Canceled)
	a.requireNotAttached(nodeOne)
	path := a.attach(nodeOne)
	_, err = a.attacher.WaitForAttach(ended, a.spec, path, c.pod)
	require.ErrorIs(c, err, context.Canceled)
	_, err = a.attacher.VolumesAreAttached(ended, []*volume.Spec{a.spec}, nodeOne)
	require.ErrorIs(c, err, context.Canceled)
	require.ErrorIs(c, a.detacher.Detach(ended, volume.DetachRequest{VolumeName: a.name, Node: nodeOne}), context.Canceled)
	a.requireAttached(nodeOne)
	a.detach(nodeOne, nil)
}
