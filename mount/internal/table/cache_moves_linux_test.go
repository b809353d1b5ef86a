package table

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMoveAfterLostEvent: the cache finds the new place of a moved mount after the loss of the
// event.
func TestMoveAfterLostEvent(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	c := newCachedDir(t, &Cache{Feeds: []OpenFeed{OpenEvents}})
	c.requireFeed("mountevents")
	c.mkdir("/from/sub", "/to/sub")
	c.tmpfs("x", "/from/sub")
	in := requireMountID(t, c.dir)
	_, below, err := c.CountAttached(t.Context(), in, constantPath("/from"))
	require.NoError(t, err)
	require.True(t, below)

	require.NoError(t, unix.Mount(c.dir+"/from/sub", c.dir+"/to/sub", "", unix.MS_MOVE, ""))
	_, _, err = c.feed.ReadEvents() // the event is lost
	require.NoError(t, err)
	require.NoError(t, c.relist(t.Context()))
	_, below, err = c.CountAttached(t.Context(), in, constantPath("/to"))
	require.NoError(t, err)
	require.True(t, below)
	_, below, err = c.CountAttached(t.Context(), in, constantPath("/from"))
	require.NoError(t, err)
	require.False(t, below)
}

func constantPath(inside string) func() (string, error) {
	return func() (string, error) { return inside, nil }
}
