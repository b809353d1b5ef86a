package atomicdir

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"golang.org/x/sys/unix"
)

// TestDurable counts the fsync calls of a new set: none, unless the set is durable and the
// file system is not in memory.
func TestDurable(t *testing.T) {
	synced, inMemory := 0, false
	fsync = func(fd int) error { synced++; return unix.Fsync(fd) }
	isInMemory = func(int) (bool, error) { return inMemory, nil }
	t.Cleanup(func() { fsync, isInMemory = unix.Fsync, hasMemoryFS })
	dir := testbed.Dir(t)
	for n, test := range []struct {
		durable, inMemory bool
		want              int
	}{
		{durable: false, inMemory: false, want: 0},
		{durable: true, inMemory: true, want: 0},
		// Three files; the set and its directory; the directory before and after.
		{durable: true, inMemory: false, want: 3 + 2 + 2},
	} {
		synced, inMemory = 0, test.inMemory
		data := string(rune('a' + n))
		o := Options{Durable: test.durable}
		require.True(t, mustWrite(t, dir, texts("a", data, "b", data, "d/c", data), o))
		require.Equal(t, test.want, synced, "%+v", test)
		synced = 0
		require.False(t, mustWrite(t, dir, texts("a", data, "b", data, "d/c", data), o))
		require.Zero(t, synced, "nothing has changed")
	}
}

// TestHasMemoryFS distinguishes tmpfs from other file systems.
func TestHasMemoryFS(t *testing.T) {
	fd, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	is, err := hasMemoryFS(fd)
	require.NoError(t, err)
	require.False(t, is)
}
