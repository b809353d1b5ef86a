package contract

import (
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

func (c *contract) readOnlySource() {
	if c.ReadOnlySpec == nil {
		c.Skip("the plugin's volumes cannot say that they are read-only")
	}
	c.requireReadOnly(c.guardedSpec(c.ReadOnlySpec()), volume.MounterArgs{})
}

func (c *contract) readOnlyClaim() {
	spec := copyOf(c.spec())
	spec.ReadOnly = true
	c.requireReadOnly(c.unchangedSpec(spec), volume.MounterArgs{})
}

func (c *contract) readOnlyPod() {
	c.requireReadOnly(c.spec(), volume.MounterArgs{ReadOnly: true})
}

func (c *contract) requireReadOnly(spec *volume.Spec, args volume.MounterArgs) {
	c.Helper()
	mounter := c.newMounter(spec)
	c.requireAttributes(mounter, spec)
	for range 2 {
		require.NoError(c, mounter.SetUp(c.Context(), args))
		at := c.requireUp(mounter.GetPath())
		if !c.RuntimeReadOnly {
			require.NotZero(c, at.Flags&mount.ReadOnly, "a read-only volume is writable"+hintRuntimeReadOnly)
		}
	}
	c.mustTearDown(spec)
}

// readOnlyLater: a volume that is set up writable does not become read-only: SetUp returns
// volume.ErrAlreadyMounted, and the volume stays as it is.
func (c *contract) readOnlyLater() {
	spec, mounter := c.mustSetUp()
	at := c.requireUp(mounter.GetPath())
	require.Zero(c, at.Flags&mount.ReadOnly, "a writable volume is read-only")
	err := mounter.SetUp(c.Context(), volume.MounterArgs{ReadOnly: true})
	if c.RuntimeReadOnly {
		require.NoError(c, err, "a volume that is up was not set up to be read"+hintReadOnly)
		c.mustTearDown(spec)
		return
	}
	require.ErrorIs(c, err, volume.ErrAlreadyMounted, "a writable volume was set up to be read"+hintIf(err == nil, hintRuntimeReadOnly))
	require.Equal(c, volume.Final, volume.KindOf(err))
	require.Equal(c, at, c.requireUp(mounter.GetPath()), "a refused SetUp changed what was up")
	c.mustTearDown(spec)
}

// view: a pod names one claim twice, to read and to write. The name that only reads has a
// directory of its own, which is set up, reconstructed and torn down beside the volume.
func (c *contract) view() {
	spec := c.spec()
	if spec.PersistentVolume == nil {
		c.Skip("only claims have views")
	}
	require.NoError(c, c.newMounter(spec).SetUp(c.Context(), volume.MounterArgs{}))
	read := copyOf(spec)
	read.ReadOnly = true
	name := podvolume.ViewName(podWithTwoNames(), &podWithTwoNames().Spec.Volumes[1], read)
	require.True(c, podvolume.IsView(name))
	path, err := c.host.PodVolumeDir(c.pod.UID, c.plugin.GetPluginName(), name)
	require.NoError(c, err)
	before := c.podState()
	for range 2 {
		require.NoError(c, podvolume.MounterAt(c.newMounter(read), path).SetUp(c.Context(), volume.MounterArgs{}))
		c.requireView(path)
	}
	found, err := c.plugin.ConstructVolumeSpec(c.Context(), podvolume.ViewedName(name), path)
	require.NoError(c, err)
	require.Equal(c, spec.Name(), found.Spec.Name())
	down, err := c.plugin.NewUnmounter(name, c.pod.UID)
	require.NoError(c, err)
	require.Equal(c, path, down.GetPath())
	require.NoError(c, down.TearDown(c.Context()))
	c.requirePodsUnchanged(before, "a view has changed the volume")
	c.mustTearDown(spec)
}

// requireView verifies that the mount at path, and no other, is read-only.
func (c *contract) requireView(path string) {
	c.Helper()
	mounted := false
	for _, info := range c.podMounts() {
		isView := info.Mountpoint == tablepath.Of(path)
		require.Equal(c, isView, info.Flags&mount.ReadOnly != 0, "%s: a view is read-only, its volume is not", info.Mountpoint)
		mounted = mounted || isView
	}
	require.True(c, mounted, "the view is not mounted")
}

// podWithTwoNames returns a pod with a claim that it writes to, and reads by the second name.
func podWithTwoNames() *v1.Pod {
	pod := newPod("pod-uid-1")
	for _, readOnly := range []bool{false, true} {
		claim := &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim", ReadOnly: readOnly}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}})
	}
	return pod
}
