package atomicdir

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestKilled: after the death of a Write at any call readers have the old set or the new
// one, whole, and the next Write puts the new one in place and leaves nothing over.
func TestKilled(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	program := func() *exec.Cmd {
		mustWrite(t, dir, generation(1), Options{})
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), dirVar+"="+dir)
		c.Stderr = os.Stderr
		return c
	}
	seen := map[string]int{}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		data, err := readSet(dir)
		require.NoError(t, err, place)
		require.Len(t, data, 3, place)
		require.Equal(t, data[0], data[1], place)
		require.Equal(t, data[0], data[2], place)
		seen[data[0]]++
		require.Equal(t, data[0], must(os.ReadFile(dir+"/a"))(t), place)
		if place == "" {
			requireSet(t, dir, generation(2))
		}
		mustWrite(t, dir, generation(2), Options{})
	})
	require.Positive(t, kills)
	if !testing.Short() {
		require.Greater(t, kills, 40)
		require.Positive(t, seen["generation 1"])
	}
	require.Positive(t, seen["generation 2"])
	t.Logf("killed at %d places: readers saw %v", kills, seen)
}

// TestKilledAtFirst: the same for a directory that has no set yet.
func TestKilledAtFirst(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t)) + "/dir"
	program := func() *exec.Cmd {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.Mkdir(dir, 0o755))
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), dirVar+"="+dir)
		c.Stderr = os.Stderr
		return c
	}
	mounttest.KillAtEachCall(t, program, func(place string) {
		if _, err := os.Readlink(dir + "/..data"); err == nil {
			data, err := readSet(dir)
			require.NoError(t, err, place)
			require.Equal(t, []string{"generation 2", "generation 2", "generation 2"}, data, place)
		}
		mustWrite(t, dir, generation(2), Options{})
	})
}
