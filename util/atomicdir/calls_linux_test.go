package atomicdir

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// These variables make the test binary a program that writes sets: the directory is in the
// second, the number of sets in the third.
const (
	workVar  = "VOLUMEKIT_TEST_WORK"
	setsVar  = "VOLUMEKIT_TEST_SETS"
	timesVar = "VOLUMEKIT_TEST_TIMES"
)

const filesOfSet = 20

func runWork(work, dir string) error {
	settling = time.Hour // no set is old enough to be recorded, which takes calls, however slow the machine is
	if work == "none change" {
		settling = tick
	}
	times, err := strconv.Atoi(os.Getenv(timesVar))
	for n := range times {
		if n == 1 && work == "none change" {
			time.Sleep(2 * tick)
		}
		if err != nil {
			return err
		}
		files, data := map[string]File{}, "data"
		if work == "all change" {
			data = strconv.Itoa(n)
		}
		for i := range filesOfSet {
			files[strconv.Itoa(i)] = File{Data: []byte(data)}
		}
		to := dir
		if work == "first" {
			to = fmt.Sprintf("%s/%d", dir, n)
			err = os.Mkdir(to, 0o755)
		}
		if err == nil {
			_, err = Write(context.Background(), to, files, Options{})
		}
	}
	return err
}

// TestCallsOfWrite pins the system calls of a Write. For each file these are
//
//   - first: openat, pwrite64, close, symlinkat;
//   - all change: openat, pwrite64, close, readlinkat, and unlinkat of the old one;
//   - none changes, on a disk: statx;
//   - none changes, in memory: statx, open_by_handle_at, pread64, close.
//
// An AtomicWriter makes 12, 13 and 12 calls for a file.
func TestCallsOfWrite(t *testing.T) {
	type limits map[string]struct{ file, set int }
	check := func(t *testing.T, dir string, limits limits) {
		for work, most := range limits {
			sets := 0
			count := func(times int) map[string]int {
				sets++
				dir := fmt.Sprintf("%s/%s %d", dir, work, sets)
				require.NoError(t, os.Mkdir(dir, 0o755))
				c := exec.Command("/proc/self/exe")
				c.Env = append(os.Environ(), workVar+"="+work, setsVar+"="+dir, timesVar+"="+strconv.Itoa(times))
				c.Stderr = os.Stderr
				return mounttest.CountCalls(t, c)
			}
			const few, many = 5, 55
			calls, total := testbed.CallsPerRound(count(few), count(many), many-few)
			require.Positive(t, total)
			assert.LessOrEqual(t, total, most.file*filesOfSet+most.set, "%s: %v", work, calls)
		}
	}
	written := limits{"first": {4, 20}, "all change": {5, 36}}
	t.Run("memory", func(t *testing.T) {
		if mounttest.RootNamespace(t) {
			dir := testbed.Tmpfs(t, testbed.Dir(t))
			check(t, dir, written)
			check(t, dir, limits{"none change": {4, 8}})
		}
	})
	t.Run("disk", func(t *testing.T) {
		testbed.Disk{FSType: "ext4", Size: 64 << 20}.Run(t, func(t *testing.T, dir string) {
			check(t, dir, written)
			check(t, dir, limits{"none change": {1, 8}})
		})
	})
}

// TestModesOfOneSet: the permissions that one file got under a umask are not assumed for a
// file with other requested permissions.
func TestModesOfOneSet(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	modes := map[string]os.FileMode{"a": 0o600, "b": 0o644, "c": 0o600, "d": 0o666, "e/f": 0o640}
	files := map[string]File{}
	for name, mode := range modes {
		files[name] = File{Mode: Perm(mode)}
	}
	_, err = Write(t.Context(), dir, files, Options{})
	require.NoError(t, err)
	for name, mode := range modes {
		info, err := os.Stat(dir + "/" + name)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), name)
	}
}
