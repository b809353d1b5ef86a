package volume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func newHost(t *testing.T) *Host {
	t.Helper()
	host, err := NewHost(t.Context(), t.TempDir(), WithNodeName("node-1"))
	require.NoError(t, err)
	return host
}

func TestHostLayout(t *testing.T) {
	host := newHost(t)
	dir, err := host.PodVolumeDir("uid", "kubernetes.io/nfs", "data")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(host.Root(), "pods", "uid", "volumes", "kubernetes.io~nfs", "data"), dir)
	dir, err = host.PodVolumeDeviceDir("uid", "kubernetes.io/local-volume")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(host.Root(), "pods", "uid", "volumeDevices", "kubernetes.io~local-volume"), dir)
	dir, err = host.PodPluginDir("uid", "kubernetes.io/empty-dir")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(host.Root(), "pods", "uid", "plugins", "kubernetes.io~empty-dir"), dir)
	dir, err = host.PluginDir("kubernetes.io/nfs")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(host.Root(), "plugins", "kubernetes.io", "nfs"), dir)

	entries, err := os.ReadDir(host.Root())
	require.NoError(t, err)
	require.Empty(t, entries, "asking for paths creates nothing")
}

func TestHostRefusesNames(t *testing.T) {
	host := newHost(t)
	for _, bad := range badComponents {
		dir, err := host.PodVolumeDir(types.UID(bad), "example.com/plugin", "data")
		requireFieldError(t, err, "podUID")
		require.Empty(t, dir)
		dir, err = host.PodVolumeDir("uid", "example.com/plugin", bad)
		requireFieldError(t, err, "volumeName")
		require.Empty(t, dir)
		dir, err = host.PodVolumeDeviceDir(types.UID(bad), "example.com/plugin")
		requireFieldError(t, err, "podUID")
		require.Empty(t, dir)
		dir, err = host.PodPluginDir(types.UID(bad), "example.com/plugin")
		requireFieldError(t, err, "podUID")
		require.Empty(t, dir)
		if bad == "a/b" {
			continue // a plugin may be called so
		}
		dir, err = host.PluginDir(bad)
		requireFieldError(t, err, "pluginName")
		require.Empty(t, dir)
		dir, err = host.PodPluginDir("uid", bad)
		requireFieldError(t, err, "pluginName")
		require.Empty(t, dir)
		dir, err = host.PodVolumeDeviceDir("uid", bad)
		requireFieldError(t, err, "pluginName")
		require.Empty(t, dir)
	}
}

func TestNewHostResolvesLinksOnce(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o750))
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	host, err := NewHost(t.Context(), link)
	require.NoError(t, err)
	require.NoError(t, os.Remove(link))
	require.Equal(t, filepath.Join(dir, "real"), host.Root())
}

func TestNewHostRefusesRoots(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, bad := range []string{"", ".", "relative/dir", file} {
		host, err := NewHost(t.Context(), bad)
		requireFieldError(t, err, "root")
		require.Nil(t, host)
	}
	host, err := NewHost(t.Context(), filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Nil(t, host)
}

func TestHostNodeName(t *testing.T) {
	require.Equal(t, types.NodeName("node-1"), newHost(t).NodeName())
	host, err := NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	want, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, types.NodeName(want), host.NodeName())
}

func TestZeroHostHasNoPaths(t *testing.T) {
	var host Host
	_, err := host.PodVolumeDir("uid", "example.com/plugin", "data")
	require.ErrorIs(t, err, errNoRoot)
	_, err = host.PluginDir("example.com/plugin")
	require.ErrorIs(t, err, errNoRoot)
}

func TestTargetDirs(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/real", 0o755))
	require.NoError(t, os.Symlink("real", dir+"/link"))
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	resolved, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	host, err := NewHost(t.Context(), t.TempDir(), WithTargetDirs(dir+"/link"), WithTargetDirs(dir))
	require.NoError(t, err)
	want := []string{filepath.Join(resolved, "real"), resolved}
	require.Equal(t, want, host.TargetDirs())
	require.Subset(t, host.OwnDirs(), want, "no volume may show what is published")
	host.TargetDirs()[0] = "/"
	require.Equal(t, want, host.TargetDirs(), "the slice is the caller's")
	require.Empty(t, newHost(t).TargetDirs())
	for _, bad := range []string{"", "relative", "/", dir + "/file"} {
		_, err := NewHost(t.Context(), t.TempDir(), WithTargetDirs(bad))
		requireFieldError(t, err, "targetDirs[0]")
	}
	_, err = NewHost(t.Context(), t.TempDir(), WithTargetDirs(dir+"/missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
