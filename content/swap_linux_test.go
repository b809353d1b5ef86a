package content_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
)

// TestNoSwap checks that volumes that may hold secrets are never swapped if the kernel has
// the tmpfs option noswap.
func TestNoSwap(t *testing.T) {
	if mounttest.RootNamespace(t) {
		requireNoSwap(t, mount.KnowsOption(t.Context(), "tmpfs", "noswap"))
	}
}

// Where the kernel refuses to promise it the volumes come up all the same.
func TestNoSwapInUserNamespace(t *testing.T) {
	if mounttest.Namespace(t) {
		requireNoSwap(t, false)
	}
}

// requireNoSwap sets volumes up and looks for the option in the mount table.
func requireNoSwap(t *testing.T, want bool) {
	t.Helper()
	m := mount.New(mount.Config{})
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := nodeIn(t, dir, m, nil)
	for _, source := range []v1.VolumeSource{secret(), downward(fieldItem("name", "metadata.name")), projectedFromAllSources()} {
		n.setUpAndRead(t, source, args{})
		table, err := m.List(t.Context())
		require.NoError(t, err)
		at, ok := mount.Table(table).At(n.mounter(t, source).GetPath())
		require.True(t, ok)
		require.Equal(t, "tmpfs", at.FSType)
		require.Equal(t, want, slices.Contains(at.SuperOptions, "noswap"))
		n.tearDown(t, source)
	}
}
