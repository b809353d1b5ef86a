package volume

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func FuzzValidatePathComponent(f *testing.F) {
	for _, seed := range append(badComponents, "data", "a b", "...", "a\\b", "NUL", "a:b") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if ValidatePathComponent(field.NewPath("name"), name) != nil {
			return
		}
		dir := filepath.FromSlash("/root/dir")
		joined := filepath.Join(dir, name)
		require.Equal(t, dir, filepath.Dir(joined))
		require.Equal(t, name, filepath.Base(joined))
	})
}

func FuzzEscapeQualifiedName(f *testing.F) {
	for _, seed := range append(badComponents, "kubernetes.io/nfs", "a~b", "~", "/a", "a/b/c") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		escaped, err := EscapeQualifiedName(name)
		if err != nil {
			return
		}
		require.NoError(t, ValidatePathComponent(nil, escaped))
		back, err := UnescapeQualifiedName(escaped)
		require.NoError(t, err)
		require.Equal(t, name, back)
	})
}

func FuzzUnescapeQualifiedName(f *testing.F) {
	for _, seed := range append(badComponents, "kubernetes.io~nfs", "a~b~c", "~", "~a", "a~") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, escaped string) {
		name, err := UnescapeQualifiedName(escaped)
		if err != nil {
			return
		}
		back, err := EscapeQualifiedName(name)
		require.NoError(t, err)
		require.Equal(t, escaped, back)
	})
}

func FuzzHostPaths(f *testing.F) {
	for _, bad := range badComponents {
		f.Add(bad, "example.com/plugin", "volume")
		f.Add("uid", bad, "volume")
		f.Add("uid", "example.com/plugin", bad)
	}
	host := &Host{root: filepath.FromSlash("/var/lib/kubelet")}
	f.Fuzz(func(t *testing.T, uid, plugin, volume string) {
		dir, err := host.PodVolumeDir(types.UID(uid), plugin, volume)
		requireBelow(t, host, 5, dir, err)
		dir, err = host.PodVolumeDeviceDir(types.UID(uid), plugin)
		requireBelow(t, host, 4, dir, err)
		dir, err = host.PodPluginDir(types.UID(uid), plugin)
		requireBelow(t, host, 4, dir, err)
		dir, err = host.PluginDir(plugin)
		requireBelow(t, host, 2+strings.Count(plugin, "/"), dir, err)
	})
}

// requireBelow checks that dir is that many levels below the root, or refused.
func requireBelow(t *testing.T, host *Host, levels int, dir string, err error) {
	t.Helper()
	if err != nil {
		require.Empty(t, dir)
		return
	}
	rel, err := filepath.Rel(host.Root(), dir)
	require.NoError(t, err)
	parts := strings.Split(rel, string(filepath.Separator))
	require.Len(t, parts, levels)
	require.NotContains(t, parts, "..")
	require.NotContains(t, dir, "\x00")
}
