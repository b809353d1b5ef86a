package emptydir_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// TestMetrics: for a volume on disk the files of the directory count, not those of the file
// system.
func TestMetrics(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.New(mount.Config{}))
	for medium, inodes := range map[v1.StorageMedium]int64{"": 4, "Memory": 4} {
		m := n.mounter(t, spec("v", v1.EmptyDirVolumeSource{Medium: medium}))
		require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
		require.NoError(t, os.MkdirAll(m.GetPath()+"/a/b", 0o755))
		require.NoError(t, os.WriteFile(m.GetPath()+"/a/b/file", make([]byte, 1<<20), 0o644))
		metrics, err := m.GetMetrics(t.Context())
		require.NoError(t, err)
		require.Equal(t, inodes, metrics.InodesUsed.Value())
		require.Positive(t, metrics.Used.Value()) // the exact size depends on the file system
		require.Less(t, metrics.Used.Value(), int64(2<<20))
		require.Greater(t, metrics.Capacity.Value(), metrics.Used.Value())
		require.NoError(t, n.unmounter(t).TearDown(t.Context()))
	}
}
