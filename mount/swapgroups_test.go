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
			require.NoError(t, m.check())
			require.Equal(t, shown, m.shows(t, stored))
			require.Equal(t, stored, m.shows(t, shown))
			for _, other := range ids {
				if other != stored && other != shown {
					require.Equal(t, other, m.shows(t, other))
				}
			}
		}
	}
}

// shows returns the group that a stored one is shown as.
func (m IDMap) shows(t *testing.T, gid uint32) uint32 {
	t.Helper()
	for _, r := range m.GIDs {
		if gid >= r.Stored && gid-r.Stored < r.Count {
			return r.Shown + gid - r.Stored
		}
	}
	require.Fail(t, "it is not mapped", "%d", gid)
	return 0
}
