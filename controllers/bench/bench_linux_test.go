package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestKubePods measures three pods, and pins the calls for each.
func TestKubePods(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	server := kubeserver.Start(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, measurePods(t.Context(), server, dir, options{pods: 3, idle: time.Second}, &out))
	t.Log(out.String())
	const calls = `  API calls for each pod: 9.00; repeated in all: 0
    create serviceaccounts/token         1.00
    list configmaps                      1.00
    list persistentvolumeclaims          1.00
    list persistentvolumes               1.00
    list secrets                         1.00
    watch configmaps                     1.00
    watch persistentvolumeclaims         1.00
    watch persistentvolumes              1.00
    watch secrets                        1.00
`
	require.Equal(t, 2, strings.Count(out.String(), calls))
	require.Equal(t, 2, strings.Count(out.String(), "idle for 1s: 0 API calls, and 0 watches"))
	require.Contains(t, out.String(), "floor, at-once, 3 pods")
}

// TestMemory measures in a small cluster: the agent has the pods of its node, and the informer has all.
func TestMemory(t *testing.T) {
	var out strings.Builder
	require.NoError(t, measureMemory(t.Context(), 200, 100, &out))
	t.Log(out.String())
	require.Contains(t, out.String(), "of a node with 2 pods, 200 pods and 100 nodes")
	require.Contains(t, out.String(), "informer of all 200 pods")
}
