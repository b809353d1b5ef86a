package beneath

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestHalve halves listings as the kernel writes them.
func TestHalve(t *testing.T) {
	dir := t.TempDir()
	for i := range 9 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%s", dir, strings.Repeat("x", i+1)), nil, 0o600))
	}
	fd, err := unix.Open(dir, ToList, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	var l Listing
	more, err := l.Refill(fd)
	require.NoError(t, err)
	require.True(t, more)
	found := map[string]bool{}
	for len(l.rest) > 0 {
		half, next := l.halve()
		var last Entry
		for len(half.rest) > 0 {
			last, half.rest = parse(half.rest)
			require.False(t, found[last.Name])
			found[last.Name] = true
		}
		require.Equal(t, last.Next, next)
	}
	require.Len(t, found, 9+2)
}
