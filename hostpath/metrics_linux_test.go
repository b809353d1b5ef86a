package hostpath_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// TestMetrics checks that the usage of a volume is that of the directory or file at its
// path.
func TestMetrics(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	n.things(t, withoutDevices)
	require.NoError(t, os.WriteFile(n.paths+"/dir/in", make([]byte, 1<<20), 0o644))
	require.NoError(t, os.WriteFile(n.paths+"/dir/other", make([]byte, 1<<20), 0o644))
	for name, want := range map[string]struct{ inodes, bytes int64 }{"dir": {3, 2 << 20}, "dir/in": {1, 1 << 20}} {
		spec := inPod(n.paths+"/"+name, "")
		_, err := n.setUp(spec)
		require.NoError(t, err)
		for _, provider := range []volume.MetricsProvider{n.mounterOf(t, spec), n.unmounter(t)} {
			metrics, err := provider.GetMetrics(t.Context())
			require.NoError(t, err)
			require.Equal(t, want.inodes, metrics.InodesUsed.Value(), name)
			require.Positive(t, metrics.Used.Value()) // how much depends on the file system
			require.Less(t, metrics.Used.Value(), want.bytes+1<<19)
			require.Greater(t, metrics.Capacity.Value(), metrics.Used.Value())
		}
		n.tearDown(t)
	}
}
