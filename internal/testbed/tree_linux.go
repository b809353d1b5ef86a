package testbed

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// OpenPath opens a path as an O_PATH descriptor, until the test ends.
func OpenPath(t testing.TB, name string) int {
	t.Helper()
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return fd
}

// Deepen creates nested directories down to a depth, and a file in each parent.
func Deepen(t testing.TB, dir, name string, depth int) {
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

// Widen creates a number of files in a directory.
func Widen(t testing.TB, dir string, files int) {
	t.Helper()
	fd := OpenPath(t, dir)
	for i := range files {
		require.NoError(t, unix.Mknodat(fd, strconv.Itoa(i), unix.S_IFREG|0o644, 0))
	}
}
