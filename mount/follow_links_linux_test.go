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
