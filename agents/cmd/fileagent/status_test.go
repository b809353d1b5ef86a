package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// TestStatusOfAnyRoot: the root's name may look like a pattern, and there are devices, too.
func TestStatusOfAnyRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a[b]*")
	for _, dir := range []string{"volumes/kubernetes.io~empty-dir/cache", "volumeDevices/kubernetes.io~local-volume/disk", "volumes/kubernetes.io~configmap/settings"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, "pods", "1", dir), 0o755))
	}
	for _, dir := range []string{"1/volume-subpaths/cache/c/0", "2/volume-subpaths/logs/c/0"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, "pods", dir), 0o755))
	}
	if _, err := os.Stat("/proc/self/mountinfo"); err != nil {
		dirs, err := volumeDirs(root)
		require.NoError(t, err)
		require.Len(t, dirs, 3)
		return
	}
	var out strings.Builder
	mounts, err := mountsOf(0)
	require.NoError(t, err)
	require.NoError(t, printMounts(&out, root, mounts, map[types.UID]string{"1": "default/web"}))
	require.Regexp(t, "default/web +cache +kubernetes.io/empty-dir +no, a directory", out.String())
	require.Regexp(t, "default/web +settings +kubernetes.io/configmap +no, a directory, ro\n", out.String())
	require.Regexp(t, "2 +logs +volume-subpaths +left alone: the pod has no volume\n", out.String())
	require.Equal(t, 5, strings.Count(out.String(), "\n"), "a line for each, and the head")
	require.Regexp(t, "default/web +disk +kubernetes.io/local-volume +no, a device", out.String())
}
