package scrub

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestKilled: after the death of the process at any call the next call finishes, and no
// other file is deleted.
func TestKilled(t *testing.T) {
	for _, verb := range []string{"empty", "trash"} {
		t.Run(verb, func(t *testing.T) {
			if mounttest.Namespace(t) {
				testKilled(t, verb)
			}
		})
	}
}

func testKilled(t *testing.T, verb string) {
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	program := func() *exec.Cmd {
		testbed.Fill(t, dir, "outside/canary", "root/a/b/c", "root/a/d", "root/e", "root/f/g/h/i", "root/lost+found/x")
		_ = os.Remove(dir + "/root/link")
		require.NoError(t, os.Symlink("../outside", dir+"/root/link"))
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), verbVar+"="+verb, dirVar+"="+dir+"/root")
		c.Stderr = os.Stderr
		return c
	}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		r, err := Open(context.Background(), dir+"/root")
		require.NoError(t, err, place)
		_, err = r.Empty(t.Context(), Options{Trash: ".trash"})
		require.NoError(t, err, place)
		require.Len(t, must(os.ReadDir(dir+"/root"))(t), 2, "%s: the trash and lost+found", place)
		_, err = r.Empty(t.Context(), Options{})
		require.NoError(t, err, place)
		require.NoError(t, r.Check(t.Context(), Options{}), place)
		require.NoError(t, r.Close(), place)
		require.Equal(t, []string{"lost+found"}, list(t, dir+"/root"), place)
		require.FileExists(t, dir+"/outside/canary", place)
	})
	require.Greater(t, kills, 1)
}
