package atomicdir

import (
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneathtest"
	"golang.org/x/sys/unix"
)

// inDirectory has mount points next to files of a generation.
var inDirectory = []MountPoint{{Name: "d/m"}, {Name: "d/e/f", File: true}}

// requirePoints verifies that the mount points exist and that readers find the files of a
// generation next to them.
func requirePoints(t *testing.T, dir, generation string) {
	t.Helper()
	info, err := os.Lstat(dir + "/d/m")
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o755, info.Mode())
	info, err = os.Lstat(dir + "/d/e/f")
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o644), info.Mode())
	for _, name := range []string{"/a", "/d/b", "/d/e/c"} {
		data, err := os.ReadFile(dir + name)
		require.NoError(t, err)
		require.Equal(t, generation, string(data))
	}
	require.Len(t, hidden(t, dir), 2)
}

// TestMountPoints: mount points exist beside the files, stay the same inodes while sets
// change, and are removed when a file of the set needs the name.
func TestMountPoints(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		check := mounttest.NoLeaks(t)
		o := Options{MountPoints: inDirectory}
		write := func(n int, o Options) {
			_, err := Write(t.Context(), dir, generation(n), o)
			require.NoError(t, err)
		}
		write(0, o)
		requirePoints(t, dir, "generation 0")
		before := []uint64{lstat(t, dir+"/d/m").Ino, lstat(t, dir+"/d/e/f").Ino}
		write(1, o)
		requirePoints(t, dir, "generation 1")
		require.Equal(t, before, []uint64{lstat(t, dir+"/d/m").Ino, lstat(t, dir+"/d/e/f").Ino})
		changed, err := Write(t.Context(), dir, generation(1), o)
		require.NoError(t, err)
		require.False(t, changed)

		mustWrite(t, dir, generation(2), Options{})
		write(3, o)
		requirePoints(t, dir, "generation 3")

		_, err = Write(t.Context(), dir, texts("a", "generation 4"), o)
		require.NoError(t, err)
		require.Equal(t, []string{"e", "m"}, entries(t, dir+"/d"), "no link to a file that has gone")
		require.Equal(t, []string{"f"}, entries(t, dir+"/d/e"))
		check()
	})
}

// TestMountPointHidesFile: a mount point, or a directory on the way to one, hides a file of
// the same name.
func TestMountPointHidesFile(t *testing.T) {
	dir := testbed.Dir(t)
	for range 2 {
		_, err := Write(t.Context(), dir, texts("a", "1", "b", "2"), Options{
			MountPoints: []MountPoint{{Name: "a"}, {Name: "./b//c", File: true}},
		})
		require.NoError(t, err)
		require.DirExists(t, dir+"/a")
		require.FileExists(t, dir+"/b/c")
		require.FileExists(t, dir+"/..data/a")
	}
	mustWrite(t, dir, texts("a", "1", "b", "2"), Options{})
}

func TestBadMountPoints(t *testing.T) {
	dir := testbed.Dir(t)
	deep := ""
	for range mostDeep {
		deep += "d/"
	}
	for _, points := range [][]MountPoint{
		{{Name: ""}}, {{Name: "/a"}}, {{Name: "../a"}}, {{Name: "..data"}}, {{Name: "a/../.."}}, {{Name: deep + "d"}},
		{{Name: "a", File: true}, {Name: "a"}}, {{Name: "a/b"}, {Name: "a", File: true}}, {{Name: "a", File: true}, {Name: "a/b"}},
	} {
		var refused *InputError
		_, err := Write(t.Context(), dir, texts("f", "1"), Options{MountPoints: points})
		require.ErrorAs(t, err, &refused, "%v", points)
		require.Empty(t, entries(t, dir))
	}
	require.NoError(t, CheckMountPoint(deep))
	require.Error(t, CheckMountPoint(deep+"d"))
}

// TestMountPointsKeepMounts: mounts of another mount namespace, such as a container's, on
// mount points stay while sets change. The control mounts on a directory of the set.
func TestMountPointsKeepMounts(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	for _, control := range []bool{false, true} {
		dir := testbed.Tmpfs(t, testbed.Dir(t))
		files, o := generation(0), Options{MountPoints: inDirectory}
		if control {
			files["d/m/x"], o = File{}, Options{}
		}
		_, err := Write(t.Context(), dir, files, o)
		require.NoError(t, err)
		container := testbed.NewContainer(t)
		require.NoError(t, container.Do(func() error { return unix.Mount("inner", dir+"/d/m", "tmpfs", 0, "") }))
		mounted := func() bool {
			return container.Do(func() error { return os.WriteFile(dir+"/d/m/inside", nil, 0o600) }) == nil &&
				typeAt(unix.AT_FDCWD, dir+"/d/m/inside") == 0
		}
		require.True(t, mounted())
		_, err = Write(t.Context(), dir, generation(1), o)
		require.NoError(t, err)
		require.Equal(t, !control, mounted())
	}
}

// TestMountPointUnderMount: a directory that is a mount point in this namespace is left as
// it is.
func TestMountPointUnderMount(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		o := Options{MountPoints: inDirectory}
		_, err := Write(t.Context(), dir, generation(0), o)
		require.NoError(t, err)
		require.NoError(t, unix.Mount("inner", dir+"/d", "tmpfs", 0, ""))
		_, err = Write(t.Context(), dir, generation(1), o)
		require.NoError(t, err)
		require.Empty(t, entries(t, dir+"/d"))
		require.NoError(t, unix.Unmount(dir+"/d", 0))
		_, err = Write(t.Context(), dir, generation(1), o)
		require.NoError(t, err)
		requirePoints(t, dir, "generation 1")
	})
}

// TestReadersAtMountPoints: a file is found at any time while the link to its directory
// becomes a directory with a mount point. (The reverse removes a directory, which a reader
// may have open.)
func TestReadersAtMountPoints(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	mustWrite(t, dir, texts("d/b", "1"), Options{})
	var done atomic.Bool
	var back sync.RWMutex
	missing := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !done.Load() {
			back.RLock()
			_, err = os.Stat(dir + "/d/b")
			back.RUnlock()
		}
		missing <- err
	}()
	for range testbed.UpTo(100, 5000) {
		_, err := Write(t.Context(), dir, texts("d/b", "1"), Options{MountPoints: inDirectory})
		require.NoError(t, err)
		back.Lock()
		_, err = Write(t.Context(), dir, texts("d/b", "1"), Options{})
		back.Unlock()
		require.NoError(t, err)
	}
	done.Store(true)
	require.NoError(t, <-missing)
}

// TestKilledWithMountPoints: after the death of a Write with mount points at any call
// readers have all files, and the next Write leaves nothing over.
func TestKilledWithMountPoints(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	program := func() *exec.Cmd {
		mustWrite(t, dir, generation(1), Options{})
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), dirVar+"="+dir, pointsVar+"=1")
		c.Stderr = os.Stderr
		return c
	}
	mounttest.KillAtEachCall(t, program, func(place string) {
		for _, name := range []string{"/a", "/d/b", "/d/e/c"} {
			require.FileExists(t, dir+name, place)
		}
		_, err := Write(t.Context(), dir, generation(2), Options{MountPoints: inDirectory})
		require.NoError(t, err, place)
		requirePoints(t, dir, "generation 2")
	})
}
