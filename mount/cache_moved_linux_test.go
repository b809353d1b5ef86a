package mount

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMoveIsLost: where a mount is attached is known after news were lost, too.
func TestMoveIsLost(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	c := newCachedDir(t, &cache{ways: []wayToKnow{openEvents}})
	c.need("mountevents")
	c.mkdir("/from/sub", "/to/sub")
	c.tmpfs("x", "/from/sub")
	in := mustID(t, c.dir)
	_, below, err := c.crowdIn(t.Context(), in, "/from")
	require.NoError(t, err)
	require.True(t, below)

	require.NoError(t, unix.Mount(c.dir+"/from/sub", c.dir+"/to/sub", "", unix.MS_MOVE, ""))
	_, _, err = c.feed.changes() // lost
	require.NoError(t, err)
	require.NoError(t, c.take(t.Context(), nil, true))
	_, below, err = c.crowdIn(t.Context(), in, "/to")
	require.NoError(t, err)
	require.True(t, below)
	_, below, err = c.crowdIn(t.Context(), in, "/from")
	require.NoError(t, err)
	require.False(t, below)
}
