package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// replaceLink replaces a symbolic link atomically, as deployments do.
func replaceLink(t *testing.T, to, name string) {
	t.Helper()
	require.NoError(t, os.Symlink(to, name+".new"))
	require.NoError(t, os.Rename(name+".new", name))
}

// TestReplacedPathIsNoticed: the replacement of any directory or link on the path is noticed without
// polls, and so are later changes in the new directory.
func TestReplacedPathIsNoticed(t *testing.T) {
	for name, test := range map[string]struct {
		links   map[string]string // the links before the change
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
			d.writeFile("one.yaml", podYAML("one"))
			d.waitUntil(func() bool { return d.pods()["one"] != "" })
			if name == "an empty directory that is held" {
				d.remove("one.yaml")
				d.waitUntil(func() bool { return len(d.pods()) == 0 })
			}
			test.replace(t)
			d.waitUntil(func() bool { return d.pods()["two"] != "" && d.pods()["one"] == "" })
			d.writeFile("three.yaml", podYAML("three"))
			d.waitUntil(func() bool { return d.pods()["three"] != "" })
			require.Empty(t, d.source.Problems())
		})
	}
}

// TestRecreatedDirectoryIsNoticed: the removal of a directory that a process has open is noticed, and so
// is the new directory at the path.
func TestRecreatedDirectoryIsNoticed(t *testing.T) {
	d := newDir(t)
	d.writeFile("a.yaml", podYAML("a"))
	d.run()
	d.waitUntil(func() bool { return d.pods()["a"] != "" })
	held, err := os.Open(d.path)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Close()) }()
	for i := range 3 {
		require.NoError(t, os.RemoveAll(d.path))
		d.waitUntil(func() bool { return d.hasProblem("no such file") })
		require.NoError(t, os.Mkdir(d.path, 0o755))
		name := fmt.Sprint("again-", i)
		d.writeFile("b.yaml", podYAML(name))
		d.waitUntil(func() bool { return d.pods()[name] != "" })
	}
}
