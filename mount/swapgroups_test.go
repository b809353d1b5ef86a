package mount

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSwapGroups(t *testing.T) {
	const last = 1<<32 - 2
	ids := []uint32{0, 1, 2, 7, 1000, last - 1, last}
	for _, stored := range ids {
		for _, shown := range ids {
			m := SwapGroups(stored, shown)
			_, err := Request{Source: "/a", Target: "/b", IDMap: m}.Parse(Allow{})
			require.NoError(t, err)
			require.Equal(t, shown, m.shownGroup(t, stored))
			require.Equal(t, stored, m.shownGroup(t, shown))
			for _, other := range ids {
				if other != stored && other != shown {
					require.Equal(t, other, m.shownGroup(t, other))
				}
			}
		}
	}
}

// shownGroup returns the group that the mount shows for a stored group.
func (m IDMap) shownGroup(t *testing.T, gid uint32) uint32 {
	t.Helper()
	for _, r := range m.GIDs {
		if gid >= r.Stored && gid-r.Stored < r.Count {
			return r.Shown + gid - r.Stored
		}
	}
	require.Fail(t, "no range maps the group", "%d", gid)
	return 0
}
