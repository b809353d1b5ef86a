package ownership

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
)

// TestDeep: neither descriptors nor the stack grow with the depth, and each directory
// is read to its end after the return to it.
func TestDeep(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		depth := testbed.UpTo(2000, 100_000)
		for _, name := range []string{"d", strings.Repeat("long", 63)} {
			testbed.Fill(t, dir, name[:1]+"/")
			testbed.Deepen(t, dir+"/"+name[:1], name, depth)
		}
		calls, most, before := 0, 0, testbed.Descriptors(t)
		var mu sync.Mutex
		replaceCalls(t, func(int) error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls%500 == 0 {
				most = max(most, testbed.Descriptors(t))
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
		entries := testbed.UpTo(20_000, 1_000_000)
		testbed.Widen(t, dir, entries)
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

// TestMoved: a worker that cannot return to the directory above fails the call, and the
// root does not count as done.
func TestMoved(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		beneath.WithoutHandles = true // handles lead to moved directories
		testbed.Fill(t, dir, "volume/top/", "elsewhere/")
		testbed.Deepen(t, dir+"/volume/top", "d", 3*beneath.Window)
		calls := 0
		replaceCalls(t, func(int) error {
			if calls++; calls == 2*2*2*beneath.Window { // below the window of open directories
				require.NoError(t, os.Rename(dir+"/volume/top/d/d/d", dir+"/elsewhere/d"))
			}
			return nil
		})
		o := Options{Group: id(7), Workers: 1}
		_, err := Apply(t.Context(), dir+"/volume", o)
		require.ErrorIs(t, err, beneath.ErrMoved)
		require.Equal(t, "0:0 40755", describeEntry(t, dir+"/volume"))
		for range 2 {
			o.Policy = OnRootMismatch
			_, err = Apply(t.Context(), dir+"/volume", o)
			require.NoError(t, err)
		}
		for name, is := range describeEntries(t, dir+"/volume") {
			require.Contains(t, is, ":7 ", name)
		}
	})
}

// TestCallsOfDeep: each level costs the same number of system calls at any depth, and none
// is an openat(2) of "..": in a mount that does not begin at the root of its file system
// the kernel walks up to the mount's root for that.
func TestCallsOfDeep(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	few := 1000
	if testing.Short() {
		few = 300
	}
	many := 4 * few
	count := func(depth int) (calls map[string]int, total int) {
		dir := testbed.Dir(t)
		testbed.Deepen(t, dir, "d", depth)
		calls = mounttest.CountCalls(t, applyProgram(dir, "new"))
		for _, n := range calls {
			total += n
		}
		return calls, total
	}
	_, less := count(few)
	calls, more := count(many)
	require.LessOrEqual(t, float64(more-less)/float64(many-few), 17.1, "%v", calls)
	require.Less(t, more, 4*less+many/2)
	require.Less(t, calls["openat"], many/10, "%v", calls)
}
