package kubeserver

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersion: the programs of another version are in another directory of the cache.
func TestVersion(t *testing.T) {
	text, err := os.ReadFile("build/go.mod")
	require.NoError(t, err)
	require.Contains(t, string(text), "k8s.io/kubernetes "+Version+"\n")
}

// TestFetchRefusesIncompleteDirectories: a directory of the cache without its program is named
// before anything is downloaded or built.
func TestFetchRefusesIncompleteDirectories(t *testing.T) {
	for name, program := range map[string]string{Version: "kube-apiserver", etcdName: "etcd"} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv(cacheVariable, cache)
			dir := filepath.Join(cache, name)
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "rest"), nil, 0o600))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := Fetch(ctx, "build", io.Discard)
			require.EqualError(t, err, dir+" lacks "+program+": remove the directory and try again")
			entries, err := os.ReadDir(cache)
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
}
