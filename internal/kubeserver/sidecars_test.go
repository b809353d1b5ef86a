package kubeserver

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSidecarVersions: the programs of other versions are in other directories of the cache.
func TestSidecarVersions(t *testing.T) {
	text, err := os.ReadFile("buildsidecars/go.mod")
	require.NoError(t, err)
	for _, sidecar := range Sidecars() {
		require.Contains(t, string(text), sidecar.module+" "+sidecar.Version+"\n")
	}
}
