package ownership

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// deepen makes a directory in a directory in a directory, and a file beside each.
func deepen(t *testing.T, dir, name string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, name, 0o755))
		require.NoError(t, unix.Mknodat(fd, "file", unix.S_IFREG|0o644, 0))
		below, err := unix.Openat(fd, name, unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = below
	}
	require.NoError(t, unix.Close(fd))
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// TestDeep: neither descriptors nor the stack grow with the depth, and each directory
// is read to its end after the way back up.
func TestDeep(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		depth := upTo(2000, 100_000)
		for _, name := range []string{"d", strings.Repeat("long", 63)} {
			fill(t, dir, name[:1]+"/")
			deepen(t, dir+"/"+name[:1], name, depth)
		}
		calls, most, before := 0, 0, descriptors(t)
		var mu sync.Mutex
		instead(t, func(int) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls%500 == 0 {
				most = max(most, descriptors(t))
			}
			return nil
		})
		for _, workers := range []int{1, 2} {
			all := int64(2*2*depth + 3)
			counts, err := Apply(t.Context(), dir, Options{Group: id(int64(workers)), Workers: workers})
			require.NoError(t, err)
			require.Equal(t, all, counts.Changed)
			require.GreaterOrEqual(t, counts.Seen, all)
			require.Less(t, most, before+2*beneath.Window+20)
		}
		counts, err := Apply(t.Context(), dir, Options{Group: id(2)})
		require.NoError(t, err)
		require.Zero(t, counts.Changed)
	})
}

// TestWide: the workers share one directory.
func TestWide(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		entries := upTo(20_000, 1_000_000)
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		for i := range entries {
			require.NoError(t, unix.Mknodat(fd, strconv.Itoa(i), unix.S_IFREG|0o644, 0))
		}
		require.NoError(t, unix.Close(fd))
		for _, workers := range []int{1, 2, 7} {
			counts, err := Apply(t.Context(), dir, Options{Group: id(int64(workers)), Workers: workers})
			require.NoError(t, err)
			require.Equal(t, Counts{Seen: int64(entries + 1), Changed: int64(entries + 1)}, counts)
			counts, err = Apply(t.Context(), dir, Options{Group: id(int64(workers)), Workers: workers})
			require.NoError(t, err)
			require.Equal(t, Counts{Seen: int64(entries + 1)}, counts)
		}
	})
}

// TestMoved: who does not find the way back says so, and the next call is not told
// that all is done.
func TestMoved(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		fill(t, dir, "volume/top/", "elsewhere/")
		deepen(t, dir+"/volume/top", "d", 3*beneath.Window)
		calls := 0
		instead(t, func(int) error {
			if calls++; calls == 2*2*2*beneath.Window { // deep enough
				require.NoError(t, os.Rename(dir+"/volume/top/d/d/d", dir+"/elsewhere/d"))
			}
			return nil
		})
		o := Options{Group: id(7), Workers: 1}
		_, err := Apply(t.Context(), dir+"/volume", o)
		require.ErrorIs(t, err, beneath.ErrMoved)
		require.Equal(t, "0:0 40755", look(t, dir+"/volume"))
		for range 2 {
			o.Policy = OnRootMismatch
			_, err = Apply(t.Context(), dir+"/volume", o)
			require.NoError(t, err)
		}
		for name, is := range lookAll(t, dir+"/volume") {
			require.Contains(t, is, ":7 ", name)
		}
	})
}
