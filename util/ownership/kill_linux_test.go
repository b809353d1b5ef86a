package ownership

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestKilled: wherever the process dies, the next one finishes, even if it looks at the
// root first, and also on the way back to the group that all was right for before.
func TestKilled(t *testing.T) {
	for _, way := range ways() {
		for name, before := range map[string]*int64{"new": nil, "back": id(8)} {
			t.Run(way+"-"+name, func(t *testing.T) {
				if mounttest.RootNamespace(t) {
					testKilled(t, way, before)
				}
			})
		}
	}
}

func testKilled(t *testing.T, way string, before *int64) {
	group := int64(4711)
	if before != nil {
		group = *before
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	volume := dir + "/volume"
	program := func() *exec.Cmd {
		require.NoError(t, os.RemoveAll(volume))
		testbed.Fill(t, dir, "outside", "volume/a/b/c", "volume/a/d", "volume/e")
		require.NoError(t, os.Symlink("../outside", volume+"/link"))
		if before != nil {
			_, err := Apply(t.Context(), volume, Options{Group: before})
			require.NoError(t, err)
		}
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), dirVar+"="+volume, wayVar+"="+way)
		c.Stderr = os.Stderr
		return c
	}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		_, err := Apply(t.Context(), volume, Options{Group: &group, Policy: OnRootMismatch})
		require.NoError(t, err, place)
		directory, file, link := fmt.Sprintf("0:%d 42775", group), fmt.Sprintf("0:%d 100660", group), fmt.Sprintf("0:%d 120777", group)
		require.Equal(t, map[string]string{
			"": directory, "/a": directory, "/a/b": directory, "/a/b/c": file, "/a/d": file, "/e": file, "/link": link,
		}, lookAll(t, volume), place)
		require.Equal(t, "0:0 100640", look(t, dir+"/outside"), place)
	})
	require.Greater(t, kills, 1)
	t.Log(kills, "kills")
}
