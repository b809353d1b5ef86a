package mounttest_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
)

// TestFakeMatchesTable: the Fake's path lookup and mount.Table find the same visible mounts, for
// random stacks and trees of mounts.
func TestFakeMatchesTable(t *testing.T) {
	s := newFakeTest(t)
	paths := []string{"source", "source/sub", "target", "target/sub", "other", "other/sub"}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func() string { return s.path(paths[random.IntN(len(paths))]) }
	for range 1000 {
		if random.IntN(3) == 0 {
			_ = s.Unmount(t.Context(), pick())
		} else {
			_ = s.Mount(t.Context(), mount.Request{
				Source: pick(), Target: pick(), Stack: random.IntN(2) == 0,
			})
		}
		p := pick()
		is, err := s.IsMountPoint(t.Context(), p)
		_, want := s.table().At(tablepath.Of(p))
		require.Equal(t, want, is && err == nil)
	}
}

func TestFakeIsSafeForConcurrentUse(t *testing.T) {
	s := newFakeTest(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				_ = s.bind("source", "target")
				_, _ = s.MountRefs(t.Context(), s.path("source"))
				_, _ = s.List(t.Context())
				_ = s.unmount("target")
				_ = s.Log()
			}
		})
	}
	all.Wait()
	require.NoError(t, s.unmount("target"))
	require.Len(t, s.table(), 1)
}
