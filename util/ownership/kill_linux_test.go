package ownership

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestKilled: wherever the process dies, the next one finishes, even if it looks at the
// root first.
func TestKilled(t *testing.T) {
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			if mounttest.RootNamespace(t) {
				testKilled(t, way)
			}
		})
	}
}

func testKilled(t *testing.T, way string) {
	dir := tmpfs(t, realTempDir(t))
	volume := dir + "/volume"
	program := func() *exec.Cmd {
		require.NoError(t, os.RemoveAll(volume))
		fill(t, dir, "outside", "volume/a/b/c", "volume/a/d", "volume/e")
		require.NoError(t, os.Symlink("../outside", volume+"/link"))
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), dirVar+"="+volume, wayVar+"="+way)
		c.Stderr = os.Stderr
		return c
	}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		_, err := Apply(t.Context(), volume, Options{Group: id(4711), Policy: OnRootMismatch})
		require.NoError(t, err, place)
		require.Equal(t, map[string]string{
			"": "0:4711 42775", "/a": "0:4711 42775", "/a/b": "0:4711 42775", "/a/b/c": "0:4711 100660",
			"/a/d": "0:4711 100660", "/e": "0:4711 100660", "/link": "0:4711 120777",
		}, lookAll(t, volume), place)
		require.Equal(t, "0:0 100640", look(t, dir+"/outside"), place)
	})
	require.Greater(t, kills, 1)
	t.Log(kills, "kills")
}
