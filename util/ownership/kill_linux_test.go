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

// TestKilled: after the death of the process at any call the next call finishes, even with
// OnRootMismatch, and also for the group for which all was right before.
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
		return applyProgram(volume, way)
	}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		_, err := Apply(t.Context(), volume, Options{Group: &group, Policy: OnRootMismatch})
		require.NoError(t, err, place)
		directory, file, link := fmt.Sprintf("0:%d 42775", group), fmt.Sprintf("0:%d 100660", group), fmt.Sprintf("0:%d 120777", group)
		require.Equal(t, map[string]string{
			"": directory, "/a": directory, "/a/b": directory, "/a/b/c": file, "/a/d": file, "/e": file, "/link": link,
		}, describeEntries(t, volume), place)
		require.Equal(t, "0:0 100640", describeEntry(t, dir+"/outside"), place)
	})
	require.Greater(t, kills, 1)
	t.Log(kills, "kills")
}

// applyProgram returns a program that gives a directory to group 4711.
func applyProgram(dir, way string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), dirVar+"="+dir, wayVar+"="+way)
	c.Stderr = os.Stderr
	return c
}
