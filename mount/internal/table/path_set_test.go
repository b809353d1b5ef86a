package table

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
)

// TestPathSet compares the set with a search through all paths.
func TestPathSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	path := func() string {
		var b strings.Builder
		for range 1 + random.IntN(4) {
			fmt.Fprintf(&b, "/%c%d", "ab-"[random.IntN(3)], random.IntN(8))
		}
		return b.String()
	}
	var set pathSet
	var all []string
	for range 20_000 {
		switch n := random.IntN(5); {
		case n < 2:
			all = append(all, path())
			set.add(all[len(all)-1])
		case n < 4 && len(all) > 0:
			i := random.IntN(len(all))
			set.remove(all[i])
			all = append(all[:i], all[i+1:]...)
		}
		require.Equal(t, len(all), set.total)
		dir := path()
		want := 0
		for _, p := range all {
			if _, ok := mountinfo.CutDir(dir, p); ok {
				want++
			}
		}
		found, ok := set.findBelow(dir)
		require.Equal(t, want > 0, ok, dir)
		if ok {
			require.Contains(t, all, found)
		}
	}
	_, ok := set.findBelow("/")
	require.Equal(t, len(all) > 0, ok)
}
