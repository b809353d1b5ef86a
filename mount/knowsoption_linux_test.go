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
		require.Equal(t, isInitialUserNamespace(t) && isKernel(t, 6, 4), mount.KnowsOption("tmpfs", "noswap"))
		requireUnknown(t)
	}
	require.Empty(t, contexts(t), "descriptors are left")
}

func TestKnowsOptionInUserNamespace(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	require.Equal(t, isKernel(t, 5, 2), mount.KnowsOption("tmpfs", "ro"))
	require.False(t, mount.KnowsOption("tmpfs", "noswap"))
	requireUnknown(t)
}

// Where a filter forbids one of the calls nothing is known.
func TestKnowsOptionFiltered(t *testing.T) {
	for name, call := range map[string]uint32{"fsopen": unix.SYS_FSOPEN, "fsconfig": unix.SYS_FSCONFIG} {
		t.Run(name, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			forbid(t, call)
			require.False(t, mount.KnowsOption("tmpfs", "noswap"))
			require.False(t, mount.KnowsOption("tmpfs", "ro"))
			require.Empty(t, contexts(t), "descriptors are left")
		})
	}
}

func requireUnknown(t *testing.T) {
	t.Helper()
	for _, option := range []string{"", "nonsense", "noswap,nonsense", "noswap=1", "no\x00swap", strings.Repeat("a", 5000)} {
		require.False(t, mount.KnowsOption("tmpfs", option), "%.20q", option)
	}
	for _, fsType := range []string{"", "nonsense", "tmp\x00fs", strings.Repeat("a", 5000)} {
		require.False(t, mount.KnowsOption(fsType, "ro"), "%.20q", fsType)
	}
}

// contexts are the descriptors of file systems that are not made yet.
func contexts(t *testing.T) (open []string) {
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

// isInitialUserNamespace goes by the number that the kernel gives it, PROC_USER_INIT_INO.
func isInitialUserNamespace(t *testing.T) bool {
	t.Helper()
	name, err := os.Readlink("/proc/self/ns/user")
	require.NoError(t, err)
	return name == fmt.Sprintf("user:[%d]", uint32(0xEFFFFFFD))
}

func isKernel(t *testing.T, major, minor int) bool {
	t.Helper()
	var uts unix.Utsname
	require.NoError(t, unix.Uname(&uts))
	var a, b int
	_, err := fmt.Sscanf(unix.ByteSliceToString(uts.Release[:]), "%d.%d", &a, &b)
	require.NoError(t, err)
	return a > major || a == major && b >= minor
}
