package testbed

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// LeaveDescriptors limits the process to a number of further open files, until restore is
// called. It requires a test in a process of its own, see mounttest.Namespace.
func LeaveDescriptors(t testing.TB, free int) (restore func()) {
	t.Helper()
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	var all []int
	for range free + 1 {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		all = append(all, fd)
	}
	least := unix.Rlimit{Cur: uint64(slices.Max(all)), Max: was.Max} // all holds one more than free
	if free == 0 {
		least.Cur = 0 // none, also if other goroutines close descriptors meanwhile
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &least))
	for _, fd := range all {
		require.NoError(t, unix.Close(fd))
	}
	return func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) }
}
