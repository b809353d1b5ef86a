package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	"golang.org/x/sys/unix"
)

func TestFollowLinks(t *testing.T) {
	m := mount.New(mount.Config{})
	dir := mkdirs(t, "a/b/c", "d")
	for name, to := range map[string]string{
		"l": "a/b", "abs": dir + "/l", "a/up": "../d", "a/b/two": "../../l/c", "dangling": "a/none/x", "self": "self", "chain": "abs/two",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for _, p := range []string{"", "/a", "/l", "/l/c", "/abs/c", "/a/up", "/a/b/two", "/abs/two", "/chain", "/d"} {
		want, err := filepath.EvalSymlinks(dir + p)
		require.NoError(t, err)
		for _, ctx := range []context.Context{context.Background(), t.Context()} {
			have, err := m.FollowLinks(ctx, dir+p)
			if errors.Is(err, errors.ErrUnsupported) {
				continue // the path has a link through the parent of another link
			}
			require.NoError(t, err, p)
			require.Equal(t, want, have, p)
		}
	}
	for p, want := range map[string]string{
		"/none": "/none", "/l/none/x": "/a/b/none/x", "/dangling": "/a/none/x", "/abs/c/x/../y": "",
	} {
		have, err := m.FollowLinks(t.Context(), dir+p)
		if want == "" {
			require.ErrorAs(t, err, new(*mount.InputError))
			continue
		}
		require.NoError(t, err, p)
		require.Equal(t, dir+want, have)
	}
	_, err := m.FollowLinks(t.Context(), dir+"/self")
	require.ErrorIs(t, err, unix.ELOOP)
	have, err := m.FollowLinks(t.Context(), "/")
	require.NoError(t, err)
	require.Equal(t, "/", have)
}

// TestRefusedLink: the error of each operation that follows no link says that a link is on the way, and names
// FollowLinks, which resolves it.
func TestRefusedLink(t *testing.T) {
	m := mount.New(mount.Config{})
	dir := mkdirs(t, "real/source", "real/target")
	for name, to := range map[string]string{"way": "real", "source": "real/source", "target": "real/target"} {
		require.NoError(t, os.Symlink(dir+"/"+to, filepath.Join(dir, name)))
	}
	for name, call := range map[string]func(ctx context.Context) error{
		"target": func(ctx context.Context) error {
			return m.Mount(ctx, mount.Request{Source: dir + "/real/source", Target: dir + "/target"})
		},
		"way": func(ctx context.Context) error {
			return m.Mount(ctx, mount.Request{Source: "x", FSType: "tmpfs", Target: dir + "/way/target"})
		},
		"source": func(ctx context.Context) error {
			return m.Mount(ctx, mount.Request{Source: dir + "/source", Target: dir + "/real/target"})
		},
		"source file": func(ctx context.Context) error {
			fd, err := unix.Open(dir+"/source", unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			source := os.NewFile(uintptr(fd), "source")
			return errors.Join(m.Mount(ctx, mount.Request{SourceFile: source, Target: dir + "/real/target"}), source.Close())
		},
		"unmount": func(ctx context.Context) error { return m.Unmount(ctx, dir+"/way/target") },
		"tree":    func(ctx context.Context) error { return m.UnmountTree(ctx, dir+"/way/target") },
		"isolate": func(ctx context.Context) error { return m.Isolate(ctx, dir+"/way/target") },
	} {
		for _, ctx := range []context.Context{context.Background(), t.Context()} {
			err := call(ctx)
			require.ErrorIs(t, err, unix.ELOOP, name)
			require.ErrorContains(t, err, "a symbolic link on the way: FollowLinks resolves it", name)
		}
	}
}

// TestHungLinksShareThreads: queries of the adapter about many paths of a dead server do not
// block one thread each.
func TestHungLinksShareThreads(t *testing.T) {
	t.Parallel()
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := mkdirs(t, "hung")
	hung := mountHungFS(t, dir+"/hung")
	defer hung.release()
	m := mountutils.New(mount.New(mount.Config{}), mountutils.WithTimeout(20*time.Millisecond))
	before := pprof.Lookup("threadcreate").Count()
	const paths = 60
	for i := range paths {
		_, err := m.IsMountPoint(fmt.Sprintf("%s/hung/pvc-%d/globalmount", dir, i))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.Less(t, pprof.Lookup("threadcreate").Count()-before, paths/2)
}
