package ownership

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// dirVar makes the test binary a program that changes the directory in it.
const dirVar = "VOLUMEKIT_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVar); dir != "" {
		disableFeatures(os.Getenv(wayVar))
		if _, err := Apply(context.Background(), dir, Options{Group: id(4711), Workers: 2}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	mounttest.Main(m, map[string]func(mounttest.Process){testbed.FUSEProgram: testbed.ServeFUSE})
}

const (
	wayVar  = "VOLUMEKIT_TEST_WAY"
	without = "without" // without newer system calls
	inPlace = "inplace" // without clones of mounts
)

// ways returns all ways, or in short runs the two that differ most.
func ways() []string {
	if testing.Short() {
		return []string{"new", without}
	}
	return []string{"new", inPlace, without}
}

// disableFeatures disables features of this kernel.
func disableFeatures(way string) {
	beneath.WithoutOpenat2, withoutClones = way == without, way != "new"
}

// onEachKernel runs a test as root in a cage, on a tmpfs of its own, with the newer
// system calls and without them.
func onEachKernel(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			if way != without && !beneath.HasOpenat2() {
				mounttest.SkipWithout(t, "openat2", "this kernel has none")
			}
			disableFeatures(way)
			test(t, cage(t))
		})
	}
}

// cage returns an empty directory. The process has a tmpfs as its root directory until
// the test ends, and no name leads above it: a walk that a bug leads upwards, or to the
// root of the hierarchy, changes no file of the machine.
func cage(t *testing.T) string {
	t.Helper()
	root := testbed.Tmpfs(t, testbed.Dir(t))
	testbed.Fill(t, root, "proc/", "dir/")
	require.NoError(t, unix.Mount("/proc", root+"/proc", "", unix.MS_BIND, ""))
	top, here := testbed.OpenPath(t, "/"), testbed.OpenPath(t, ".")
	require.NoError(t, unix.Chroot(root))
	t.Cleanup(func() {
		require.NoError(t, unix.Fchdir(top))
		require.NoError(t, unix.Chroot("."))
		require.NoError(t, unix.Fchdir(here))
	})
	require.NoError(t, unix.Chdir("/"))
	return testbed.Tmpfs(t, "/dir")
}

// TestCage: no path leads out of the cage, and tests see no file of the machine.
func TestCage(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		var top, above unix.Stat_t
		require.NoError(t, unix.Lstat("/", &top))
		require.NoError(t, unix.Lstat(dir+strings.Repeat("/..", 20), &above))
		require.Equal(t, top, above)
		entries, err := os.ReadDir("/")
		require.NoError(t, err)
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		require.Equal(t, []string{"dir", "proc"}, names)
	})
}

// describeEntry returns the owner and the mode of an entry: "0:7 100660".
func describeEntry(t *testing.T, name string) string {
	t.Helper()
	var x unix.Stat_t
	require.NoError(t, unix.Lstat(name, &x))
	return fmt.Sprintf("%d:%d %o", x.Uid, x.Gid, x.Mode)
}

// describeEntries returns them for a directory and all its entries.
func describeEntries(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err == nil {
			all[strings.TrimPrefix(name, dir)] = describeEntry(t, name)
		}
		return err
	}))
	return all
}

// paths returns the paths that an error names.
func paths(t *testing.T, err error) []string {
	t.Helper()
	var unchanged *UnchangedError
	require.ErrorAs(t, err, &unchanged)
	var names []string
	for _, entry := range unchanged.Entries {
		names = append(names, entry.Path)
	}
	return names
}

// replaceCalls replaces the system calls that change files, for a test.
func replaceCalls(t *testing.T, before func(fd int) error) {
	t.Helper()
	fchownat = func(fd int, name string, uid, gid, flags int) error {
		if err := before(fd); err != nil {
			return err
		}
		return unix.Fchownat(fd, name, uid, gid, flags)
	}
	fchmodat = func(fd int, name string, mode uint32, flags int) error {
		if err := before(fd); err != nil {
			return err
		}
		return unix.Fchmodat(fd, name, mode, flags)
	}
	t.Cleanup(func() { fchownat, fchmodat = unix.Fchownat, unix.Fchmodat })
}
