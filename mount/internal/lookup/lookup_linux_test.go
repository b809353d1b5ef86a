package lookup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// TestLookupStepwise: a stepwise lookup finds the same file as the kernel's own lookup, or
// fails with the same error.
func TestLookupStepwise(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir+"/a/b/c", 0o755))
	require.NoError(t, os.MkdirAll(dir+"/x", 0o755))
	require.NoError(t, os.WriteFile(dir+"/a/file", nil, 0o644))
	for name, to := range map[string]string{
		"relative": "a/b", "absolute": dir + "/a/b", "up": "a/b/../..", "x/out": "../a", "chain": "relative/c",
		"loop": "loop", "nowhere": "missing", "tofile": "a/file", "dot": "./a/./b/", "x/through": "../relative/../file",
	} {
		require.NoError(t, os.Symlink(to, dir+"/"+name))
	}
	kernel.CachedLookupError = unix.EINVAL
	t.Cleanup(func() { kernel.CachedLookupError = nil })
	resolver := new(Resolver)
	before := openFiles(t)
	for _, p := range []string{
		"/", "/a", "/a/b/c", "/a//b/./c/", "/relative", "/relative/c", "/absolute/c", "/up/x", "/x/out/b", "/chain", "/chain/.",
		"/loop", "/loop/x", "/nowhere", "/nowhere/x", "/missing", "/a/missing/x", "/tofile", "/tofile/x", "/a/file/x", "/dot/c",
		"/x/through", "/x/through/x",
	} {
		for _, flags := range []int{0, unix.O_DIRECTORY} {
			for _, follow := range []bool{false, true} {
				l := Lookup{resolver: resolver, follow: follow}
				got, gotErr := l.Open(t.Context(), dir+p, flags)
				want, wantErr := kernel.RetryOpen(func() (int, error) {
					if !follow {
						return safepath.Open(t.Context(), unix.AT_FDCWD, dir+p, flags)
					}
					noFollow := unix.O_NOFOLLOW
					if flags != 0 {
						noFollow = 0 // the last component, too, is followed for a directory
					}
					return unix.Open(dir+p, unix.O_PATH|unix.O_CLOEXEC|noFollow|flags, 0)
				})
				if errors.Is(wantErr, unix.ELOOP) && !follow {
					wantErr = failure.ErrLink
				}
				require.Equal(t, wantErr, gotErr, "%s %x follow=%t", p, flags, follow)
				if wantErr == nil {
					wantID, err := kernel.Identify(want)
					require.NoError(t, err)
					gotID, err := kernel.Identify(got)
					require.NoError(t, err)
					require.Equal(t, wantID, gotID, p)
					kernel.Close(want, got)
				}
			}
		}
	}
	require.Zero(t, resolver.waiting.Len())
	require.Equal(t, before, openFiles(t), "descriptors remain open")
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// cachedLookupErrors are the errors of cached lookups: none, of an old kernel, and outside the kernel's memory.
var cachedLookupErrors = []error{nil, unix.EINVAL, unix.EAGAIN}

// TestUncachedMountPoint: a mount point is found, and entered, also if no cached lookup enters it.
func TestUncachedMountPoint(t *testing.T) {
	root, err := os.Open("/")
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	want, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer kernel.Close(want)
	wantID, err := kernel.Identify(want)
	require.NoError(t, err)
	defer func() { kernel.CachedLookupError = nil }()
	resolver := new(Resolver)
	before := openFiles(t)
	for _, kernel.CachedLookupError = range cachedLookupErrors {
		for p, want := range map[string]bool{"/proc": true, "/": true, "/proc/self": false} {
			is, err := resolver.IsMountPoint(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, want, is, p)
		}
		fd, err := resolver.FollowingLinks().OpenChild(t.Context(), int(root.Fd()), "proc")
		require.NoError(t, err)
		gotID, err := kernel.Identify(fd)
		require.NoError(t, err)
		require.Equal(t, wantID, gotID)
		kernel.Close(fd)
		_, err = resolver.FollowingLinks().OpenChild(t.Context(), int(root.Fd()), "missing")
		require.ErrorIs(t, err, unix.ENOENT)
		wantUnique, wantErr := kernel.RootMountID(want)
		unique, err := resolver.MountIDAt(t.Context(), "/proc")
		require.Equal(t, wantErr, err)
		require.Equal(t, wantUnique, unique)
	}
	require.Equal(t, before, openFiles(t), "descriptors remain open")
}

// TestChildIsLink: a lookup without links names the refusal of a link, whether it is in the kernel's cache or not.
func TestChildIsLink(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer func() { _ = dir.Close() }()
	require.NoError(t, os.Symlink("target", dir.Name()+"/link"))
	defer func() { kernel.CachedLookupError = nil }()
	for _, kernel.CachedLookupError = range cachedLookupErrors {
		for _, ctx := range []context.Context{context.Background(), t.Context()} {
			_, err = new(Resolver).WithoutLinks().OpenChild(ctx, int(dir.Fd()), "link")
			require.Equal(t, failure.ErrLink, err)
		}
	}
}

// TestLookupEndedContext: an ended context makes no system call.
func TestLookupEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(Resolver).WithoutLinks().Open(ctx, "/", 0)
	require.ErrorIs(t, err, context.Canceled)
}

// TestLookupInProc: the links of proc(5) lead to objects without a path.
func TestLookupInProc(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer func() { _ = dir.Close() }()
	require.NoError(t, os.Mkdir(dir.Name()+"/sub", 0o755))
	require.NoError(t, os.Rename(dir.Name(), dir.Name()+"-moved"))
	require.NoError(t, os.Mkdir(dir.Name(), 0o755))
	defer func() { kernel.CachedLookupError = nil }()
	for _, kernel.CachedLookupError = range cachedLookupErrors {
		for _, p := range []string{kernel.DescriptorPath(int(dir.Fd())) + "/sub", "/proc/self/root/proc/self/cwd/."} {
			fd, err := new(Resolver).FollowingLinks().Open(t.Context(), p, 0)
			require.NoError(t, err, p)
			kernel.Close(fd)
		}
	}
}
