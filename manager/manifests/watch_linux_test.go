package manifests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// replaceLink replaces a symbolic link in one step, as who deploys does.
func replaceLink(t *testing.T, to, name string) {
	t.Helper()
	require.NoError(t, os.Symlink(to, name+".new"))
	require.NoError(t, os.Rename(name+".new", name))
}

// TestWay: whatever on the way to the directory comes to lead to another one is noticed
// though nobody looks from time to time, and so is what changes there afterwards.
func TestWay(t *testing.T) {
	for name, test := range map[string]struct {
		links   map[string]string // to make at first
		dir     string
		replace func(t *testing.T)
	}{
		"a link": {map[string]string{"current": "1"}, "current", func(t *testing.T) {
			replaceLink(t, "2", "current")
		}},
		"a link that is held": {map[string]string{"current": "1"}, "current", func(t *testing.T) {
			fd, err := unix.Open("current", unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			t.Cleanup(func() { _ = unix.Close(fd) })
			replaceLink(t, "2", "current")
		}},
		"a link on the way": {map[string]string{"links/current": "../all/.."}, "links/current/1", func(t *testing.T) {
			require.NoError(t, os.Mkdir("all/new", 0o755))
			require.NoError(t, os.Rename("2", "all/new/1"))
			replaceLink(t, "../all/new", "links/current")
		}},
		"a link to a link": {map[string]string{"current": "links/other", "links/other": "../1"}, "current", func(t *testing.T) {
			replaceLink(t, "../2", "links/other")
		}},
		"the directory": {nil, "1", func(t *testing.T) {
			require.NoError(t, unix.Renameat2(unix.AT_FDCWD, "1", unix.AT_FDCWD, "2", unix.RENAME_EXCHANGE))
		}},
		"an empty directory that is held": {nil, "empty", func(t *testing.T) {
			held, err := os.Open("empty")
			require.NoError(t, err)
			t.Cleanup(func() { _ = held.Close() })
			require.NoError(t, unix.Rename("2", "empty"))
		}},
		"one above it": {nil, "all/a", func(t *testing.T) {
			require.NoError(t, os.Mkdir("new", 0o755))
			require.NoError(t, os.Rename("2", "new/a"))
			require.NoError(t, unix.Renameat2(unix.AT_FDCWD, "all", unix.AT_FDCWD, "new", unix.RENAME_EXCHANGE))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			t.Chdir(base)
			for _, dir := range []string{"1", "2", "links", "all/a", "empty"} {
				require.NoError(t, os.MkdirAll(dir, 0o755))
			}
			require.NoError(t, os.WriteFile("2/two.yaml", []byte(podYAML("two")), 0o600))
			for name, to := range test.links {
				require.NoError(t, os.Symlink(to, name))
			}
			d := newDir(t, func(c *Config) { c.Dir, c.Poll = test.dir, time.Hour })
			d.path = filepath.Join(base, test.dir)
			d.run()
			d.put("one.yaml", podYAML("one"))
			d.eventually(func() bool { return d.pods()["one"] != "" })
			if name == "an empty directory that is held" {
				d.remove("one.yaml")
				d.eventually(func() bool { return len(d.pods()) == 0 })
			}
			test.replace(t)
			d.eventually(func() bool { return d.pods()["two"] != "" && d.pods()["one"] == "" })
			d.put("three.yaml", podYAML("three"))
			d.eventually(func() bool { return d.pods()["three"] != "" })
			require.Empty(t, d.source.Problems())
		})
	}
}

// TestMadeAgain: one that is removed while somebody is in it is missed, and found when it
// is made again.
func TestMadeAgain(t *testing.T) {
	d := newDir(t)
	d.put("a.yaml", podYAML("a"))
	d.run()
	d.eventually(func() bool { return d.pods()["a"] != "" })
	held, err := os.Open(d.path)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Close()) }()
	for i := range 3 {
		require.NoError(t, os.RemoveAll(d.path))
		d.eventually(func() bool { return d.says("no such file") })
		require.NoError(t, os.Mkdir(d.path, 0o755))
		name := fmt.Sprint("again-", i)
		d.put("b.yaml", podYAML(name))
		d.eventually(func() bool { return d.pods()[name] != "" })
	}
}

// TestOthersOnTheWay: what others do next to the directory is none of ours.
func TestOthersOnTheWay(t *testing.T) {
	base := t.TempDir()
	dir, other := filepath.Join(base, "dir"), filepath.Join(base, "other")
	require.NoError(t, os.Mkdir(dir, 0o755))
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- watch(ctx, dir, func() { told <- struct{}{} }) }()
	<-told
	for range 10 {
		require.NoError(t, errors.Join(os.Mkdir(other, 0o755), os.Chmod(other, 0o700), os.Remove(other)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	<-told
	require.Empty(t, told)
	cancel()
	require.ErrorIs(t, <-ended, os.ErrClosed)
}

func TestLinksWithoutEnd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "loop")
	require.NoError(t, os.Symlink("loop", name))
	require.ErrorIs(t, watch(t.Context(), name, func() {}), unix.ELOOP)
	require.ErrorIs(t, watch(t.Context(), name+"-missing", func() {}), os.ErrNotExist)
}
