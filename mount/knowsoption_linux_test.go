package mount_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

func TestKnowsOption(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	for range 100 {
		require.Equal(t, isInitialUserNamespace(t) && kernelIsAtLeast(t, 6, 4), mount.KnowsOption(t.Context(), "tmpfs", "noswap"))
		requireUnknownOptions(t)
	}
	require.Empty(t, openFSContexts(t), "descriptors of file system contexts remain open")
}

func TestKnowsOptionInUserNamespace(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	require.Equal(t, kernelIsAtLeast(t, 5, 2), mount.KnowsOption(t.Context(), "tmpfs", "ro"))
	require.False(t, mount.KnowsOption(t.Context(), "tmpfs", "noswap"))
	requireUnknownOptions(t)
}

// TestKnowsOptionFiltered: KnowsOption returns false if a filter forbids one of its calls.
func TestKnowsOptionFiltered(t *testing.T) {
	for name, call := range map[string]uint32{"fsopen": unix.SYS_FSOPEN, "fsconfig": unix.SYS_FSCONFIG} {
		t.Run(name, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			forbid(t, call)
			require.False(t, mount.KnowsOption(t.Context(), "tmpfs", "noswap"))
			require.False(t, mount.KnowsOption(t.Context(), "tmpfs", "ro"))
			require.Empty(t, openFSContexts(t), "descriptors of file system contexts remain open")
		})
	}
}

func requireUnknownOptions(t *testing.T) {
	t.Helper()
	for _, option := range []string{"", "nonsense", "noswap,nonsense", "noswap=1", "no\x00swap", strings.Repeat("a", 5000)} {
		require.False(t, mount.KnowsOption(t.Context(), "tmpfs", option), "%.20q", option)
	}
	for _, fsType := range []string{"", "nonsense", "tmp\x00fs", strings.Repeat("a", 5000)} {
		require.False(t, mount.KnowsOption(t.Context(), fsType, "ro"), "%.20q", fsType)
	}
}

// openFSContexts returns the open descriptors of fsopen(2).
func openFSContexts(t *testing.T) (open []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.Contains(to, "fscontext") {
			open = append(open, to)
		}
	}
	return open
}

// isInitialUserNamespace compares the inode of the user namespace with PROC_USER_INIT_INO.
func isInitialUserNamespace(t *testing.T) bool {
	t.Helper()
	name, err := os.Readlink("/proc/self/ns/user")
	require.NoError(t, err)
	return name == fmt.Sprintf("user:[%d]", uint32(0xEFFFFFFD))
}

func kernelIsAtLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	var uts unix.Utsname
	require.NoError(t, unix.Uname(&uts))
	var a, b int
	_, err := fmt.Sscanf(unix.ByteSliceToString(uts.Release[:]), "%d.%d", &a, &b)
	require.NoError(t, err)
	return a > major || a == major && b >= minor
}
