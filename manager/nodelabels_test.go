package manager

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// TestNodeLabels: without configured labels the node has the one that all nodes have.
func TestNodeLabels(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir(), volume.WithNodeName("node-1"))
	require.NoError(t, err)
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host)
	require.NoError(t, err)
	for want, labels := range map[string]map[string]string{"node-1": nil, "": {"zone": "a"}} {
		n := newNode(Config{Plugins: plugins, NodeLabels: labels})
		require.Equal(t, "node-1", n.Name)
		require.Equal(t, want, n.Labels[v1.LabelHostname])
	}
}
