package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func open(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { Close(fd) })
	return fd
}

func TestIsUncached(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{nil, false},
		{unix.ENOENT, false},
		{unix.ELOOP, false},
		{unix.EAGAIN, true},
		{unix.EINVAL, true},
		{unix.ENOSYS, true},
		{fmt.Errorf("open: %w", unix.EPERM), true},
	}
	for _, test := range tests {
		require.Equal(t, test.want, IsUncached(test.err), "%v", test.err)
	}
}

func TestRetryOpen(t *testing.T) {
	calls := 0
	fd, err := RetryOpen(func() (int, error) {
		if calls++; calls < 3 {
			return -1, unix.EINTR
		}
		return 7, nil
	})
	require.NoError(t, err)
	require.Equal(t, []int{7, 3}, []int{fd, calls})
}

func TestOpenCachedWithoutCachedLookups(t *testing.T) {
	CachedLookupError = unix.EINVAL
	defer func() { CachedLookupError = nil }()
	_, err := OpenCached(unix.AT_FDCWD, "/", 0, 0)
	require.True(t, IsUncached(err), "%v", err)
}

func TestPathAndLink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Symlink("../target", filepath.Join(dir, "link")))

	path, err := PathOf(open(t, dir))
	require.NoError(t, err)
	require.Equal(t, dir, path)
	link, err := ReadLink(open(t, filepath.Join(dir, "link")))
	require.NoError(t, err)
	require.Equal(t, "../target", link)
	link, err = ReadLink(open(t, dir))
	require.NoError(t, err)
	require.Empty(t, link)
}

func TestMissingProcIsNoMissingFile(t *testing.T) {
	require.NotErrorIs(t, ErrNoProc, fs.ErrNotExist)
	require.ErrorIs(t, ErrNoProc, errors.ErrUnsupported)
	require.ErrorIs(t, ExplainMissingProc(unix.ENOENT), fs.ErrNotExist, "with /proc mounted")
}

func TestIdentify(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Link(file, link))
	identity := func(path string) Identity {
		id, err := Identify(open(t, path))
		require.NoError(t, err)
		unique, _, err := IdentifyUnique(open(t, path))
		require.NoError(t, err)
		require.True(t, id.SameObject(unique))
		return id
	}
	require.True(t, identity(file).SameObject(identity(link)))
	require.False(t, identity(file).SameObject(identity(dir)))
	require.Equal(t, identity(dir).Mount, identity(file).Mount)
	require.True(t, identity(dir).Dir)
	require.False(t, identity(file).Dir)
	require.True(t, identity("/dev/null").Device)
}

func TestLocation(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	location := func(path string) Location {
		l, err := LocationOf(open(t, path))
		require.NoError(t, err)
		return l
	}
	above, sub := location(dir), location(filepath.Join(dir, "sub"))
	require.False(t, sub.IsMountIn(above))
	require.True(t, sub.SameFileSystem(above))
	require.True(t, location("/proc").IsMountIn(location("/")))
	require.False(t, location("/proc").SameFileSystem(location("/")))
}

func TestMountRoots(t *testing.T) {
	mounted, err := DiffersFromParent(open(t, "/"), "proc")
	require.NoError(t, err)
	require.True(t, mounted)
	mounted, err = DiffersFromParent(open(t, "/proc"), "self")
	require.NoError(t, err)
	require.False(t, mounted)

	unique, err := UniqueMountID(open(t, "/proc"))
	if errors.Is(err, ErrNoUniqueIDs) {
		return
	}
	require.NoError(t, err)
	root, err := RootMountID(open(t, "/proc"))
	require.NoError(t, err)
	require.Equal(t, unique, root)
	root, err = RootMountID(open(t, "/proc/self"))
	require.NoError(t, err)
	require.Zero(t, root)
}
