package emptydir_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// TestNoSwap: a volume in memory is not swapped where the kernel can guarantee it.
func TestNoSwap(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	require.Equal(t, mount.KnowsOption(t.Context(), "tmpfs", "noswap"), upWithNoSwap(t))
}

// TestNoSwapInUserNamespace: the volume is set up also where the kernel refuses noswap.
func TestNoSwapInUserNamespace(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	require.False(t, upWithNoSwap(t))
}

// upWithNoSwap sets a volume up, and reports whether the mount table shows noswap.
func upWithNoSwap(t *testing.T) bool {
	t.Helper()
	n := newNode(t, mount.New(mount.Config{}))
	m := n.mounter(t, onMedium("Memory"))
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
	options := n.optionsOf(t, m.GetPath())
	require.NoError(t, n.unmounter(t).TearDown(t.Context()))
	return slices.Contains(options, "noswap")
}
