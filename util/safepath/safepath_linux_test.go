package safepath

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testflag"
	"golang.org/x/sys/unix"
)

// onEachKernel runs a test with openat2 and without it.
func onEachKernel(t *testing.T, test func(t *testing.T)) {
	t.Run("openat2", func(t *testing.T) {
		if !hasOpenat2() {
			require.False(t, testflag.Required("openat2"), "this kernel has no openat2") // mounttest imports this package
			t.Skip("this kernel has no openat2")
		}
		test(t)
	})
	t.Run("walk", func(t *testing.T) {
		withoutOpenat2 = true
		t.Cleanup(func() { withoutOpenat2 = false })
		test(t)
	})
}

// realTempDir returns a temporary directory without a symbolic link in its path.
func realTempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func TestOpenFollowsNoLink(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		dir := realTempDir(t)
		require.NoError(t, os.MkdirAll(dir+"/a/b", 0o755))
		require.NoError(t, os.WriteFile(dir+"/a/file", nil, 0o644))
		require.NoError(t, os.Symlink("a", dir+"/link"))
		for _, test := range []struct {
			name  string
			flags int
			err   error
		}{
			{name: "/a/b"},
			{name: "/a/b/"},
			{name: "/a/file"},
			{name: "/link", err: unix.ELOOP},
			{name: "/link/b", err: unix.ELOOP},
			{name: "/a/none", err: fs.ErrNotExist},
			{name: "/a/file/x", err: unix.ENOTDIR},
			{name: "/a/file", flags: unix.O_DIRECTORY, err: unix.ENOTDIR},
		} {
			fd, err := Open(context.Background(), unix.AT_FDCWD, dir+test.name, test.flags)
			if test.err == nil {
				require.NoError(t, err, test.name)
				require.NoError(t, unix.Close(fd))
				continue
			}
			require.ErrorIs(t, err, test.err, test.name)
		}
	})
}

func TestNoDescriptorIsLeft(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		dir := realTempDir(t)
		runtime.GC() // closes descriptors that earlier tests dropped
		before, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for range 8 {
			_, err := MkdirAll(context.Background(), dir, dir+"/a/b/c", 0o700)
			require.NoError(t, err)
			_, err = MkdirAll(context.Background(), dir, dir+"/a/b/c/\xff\n/d", 0o700)
			require.NoError(t, err)
			_ = Rmdir(context.Background(), dir+"/a/b/c")
			_ = Rmdir(context.Background(), dir+"/a/none/c")
		}
		after, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		require.LessOrEqual(t, len(after), len(before))
	})
}

func TestMkdirAllKeepsToRealDirectories(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		dir := realTempDir(t)
		outside := realTempDir(t)
		require.NoError(t, os.Symlink(outside, dir+"/link"))
		require.NoError(t, os.WriteFile(dir+"/file", nil, 0o644))
		for _, name := range []string{"/link/x", "/link", "/link/x/y", "/file", "/file/x"} {
			_, err := MkdirAll(context.Background(), dir, dir+name, 0o755)
			require.Error(t, err, name)
		}
		left, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Empty(t, left)

		made, err := MkdirAll(context.Background(), dir, dir+"/new/deep/er", 0o750)
		require.NoError(t, err)
		require.Equal(t, dir+"/new", made)
		again, err := MkdirAll(context.Background(), dir, dir+"/new/deep/er", 0o750)
		require.NoError(t, err)
		require.Empty(t, again)
		last, err := MkdirAll(context.Background(), dir, dir+"/new/deep/est", 0o750)
		require.NoError(t, err)
		require.Equal(t, dir+"/new/deep/est", last)

		require.NoError(t, os.Mkdir(dir+"/new/deep/er/x", 0o750))
		require.ErrorIs(t, RemoveMade(context.Background(), made, dir+"/new/deep/er"), unix.ENOTEMPTY, "the directory itself stays")
		require.NoError(t, os.Remove(dir+"/new/deep/er/x"))
		require.NoError(t, RemoveMade(context.Background(), made, dir+"/new/deep/er"), "somebody else's est stays, and what holds it")
		require.NoDirExists(t, dir+"/new/deep/er")
		require.DirExists(t, dir+"/new/deep/est")
		require.NoError(t, RemoveMade(context.Background(), last, dir+"/new/deep/est"))
		require.NoError(t, RemoveMade(context.Background(), "", dir+"/new/deep"))
		require.NoError(t, RemoveMade(context.Background(), dir+"/elsewhere", dir+"/new/deep"))
		require.DirExists(t, dir+"/new/deep")
		require.NoError(t, RemoveMade(context.Background(), made, dir+"/new/deep"))
		require.NoDirExists(t, dir+"/new")

		made, err = MkdirAll(context.Background(), dir, dir+"/some/file/x", 0o750)
		require.NoError(t, err)
		require.NoError(t, RemoveMade(context.Background(), made, dir+"/some/file/x"))
		_, err = MkdirAll(context.Background(), dir, dir+"/b/"+strings.Repeat("n", 256), 0o750)
		require.ErrorIs(t, err, unix.ENAMETOOLONG)
	})
}

// requireKeepsMountPoint mounts on a new directory. The machine's own mount points are not for
// tests: a namespace may lack one of them, and rmdir(2) there removes it for all others.
func requireKeepsMountPoint(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	defer func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	require.ErrorIs(t, Rmdir(context.Background(), dir), unix.EBUSY)
}

func TestRmdirNeverDescends(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		dir := realTempDir(t)
		require.NoError(t, os.MkdirAll(dir+"/full/x", 0o755))
		require.NoError(t, os.WriteFile(dir+"/file", nil, 0o644))
		require.NoError(t, os.Symlink("full", dir+"/link"))
		require.ErrorIs(t, Rmdir(context.Background(), dir+"/full"), unix.ENOTEMPTY)
		require.ErrorIs(t, Rmdir(context.Background(), dir+"/file"), unix.ENOTDIR)
		require.ErrorIs(t, Rmdir(context.Background(), dir+"/link"), unix.ENOTDIR)
		require.Error(t, Rmdir(context.Background(), dir+"/link/x"))
		require.ErrorIs(t, Rmdir(context.Background(), dir+"/none"), fs.ErrNotExist)
		if os.Geteuid() == 0 {
			requireKeepsMountPoint(t, dir+"/mounted")
		}
		require.NoError(t, Rmdir(context.Background(), dir+"/full/x/"))
	})
}
