package contract

import (
	"context"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/volume"
)

// expandable returns a volume of 1 GiB and a request for 2 GiB of storage, or skips the test.
func (c *contract) expandable() (volume.ExpandableVolumePlugin, volume.ExpandRequest) {
	c.Helper()
	able, ok := volume.As[volume.ExpandableVolumePlugin](c.plugin)
	if !ok {
		c.Skip("the plugin makes no storage larger")
	}
	return able, volume.ExpandRequest{
		Spec: c.unchangedSpec(c.Spec()), OldSize: resource.MustParse("1Gi"), NewSize: resource.MustParse("2Gi"),
	}
}

// expandStorage: twice, never to a smaller size, and not with an ended context.
func (c *contract) expandStorage() {
	able, req := c.expandable()
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	_, err := able.ExpandVolumeDevice(ended, req)
	require.ErrorIs(c, err, context.Canceled)
	first, err := able.ExpandVolumeDevice(c.Context(), req)
	require.NoError(c, err)
	require.GreaterOrEqual(c, first.Size.Cmp(req.NewSize), 0, "the storage has %v", &first.Size)
	again, err := able.ExpandVolumeDevice(c.Context(), req)
	require.NoError(c, err)
	require.Equal(c, first, again, "the storage is as large already")
	smaller := req
	smaller.NewSize = resource.MustParse("1Gi")
	kept, err := able.ExpandVolumeDevice(c.Context(), smaller)
	require.NoError(c, err)
	require.GreaterOrEqual(c, kept.Size.Cmp(first.Size), 0, "storage has shrunk to %v", &kept.Size)
	if !c.InfeasibleSize.IsZero() {
		req.NewSize = c.InfeasibleSize
		_, err = able.ExpandVolumeDevice(c.Context(), req)
		require.ErrorIs(c, err, volume.ErrInfeasible)
		require.Equal(c, volume.Final, volume.KindOf(err))
	}
	for what, spec := range unsupportedSpecs() {
		req.Spec = spec
		_, err := able.ExpandVolumeDevice(c.Context(), req)
		require.Error(c, err, what)
	}
}

// expandStorageOffline: after the volume is detached the same call succeeds.
func (c *contract) expandStorageOffline() {
	able, req := c.expandable()
	if !c.OfflineExpansion {
		c.Skip("storage grows while the volume is in use")
	}
	a := c.attachment()
	req.Spec = a.spec
	a.attach(nodeOne)
	for range 2 {
		_, err := able.ExpandVolumeDevice(c.Context(), req)
		require.ErrorIs(c, err, volume.ErrFailedPrecondition)
		require.Equal(c, volume.Transient, volume.KindOf(err))
	}
	a.detach(nodeOne, a.spec)
	_, err := able.ExpandVolumeDevice(c.Context(), req)
	require.NoError(c, err)
}
