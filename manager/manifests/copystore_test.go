package manifests

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// newTornDir returns a directory with a running pod, whose file and copy are both invalid.
func newTornDir(t *testing.T, broken func(kept string) error) (d *testDir, kept string, before map[string]types.UID) {
	t.Helper()
	keep := filepath.Join(t.TempDir(), "keep")
	first := newDir(t, func(c *Config) { c.Keep = keep })
	first.writeFile("f.yaml", podYAML("good"))
	first.writeFile("other.yaml", podYAML("other"))
	before = first.pods()
	require.Len(t, before, 2)
	kept = filepath.Join(keep, "f.yaml.kept")
	first.writeFile("f.yaml", podYAML("good")[:60])
	require.NoError(t, broken(kept))
	d = newDir(t, func(c *Config) { c.Dir, c.Keep = first.path, keep })
	d.path = first.path
	return d, kept, before
}

var corruptions = map[string]func(kept string) error{
	"empty":  func(kept string) error { return os.Truncate(kept, 0) },
	"torn":   func(kept string) error { return os.Truncate(kept, 60) },
	"zeroes": func(kept string) error { return os.WriteFile(kept, make([]byte, 100), 0o600) },
	"a link": func(kept string) error {
		return errors.Join(os.Remove(kept), os.Symlink("..", kept))
	},
}

// TestInvalidCopyIsError: an invalid copy of an invalid manifest is an error, and no empty list of pods,
// until the manifest is repaired.
func TestInvalidCopyIsError(t *testing.T) {
	for name, broken := range corruptions {
		t.Run(name, func(t *testing.T) {
			d, kept, before := newTornDir(t, broken)
			for range 2 {
				_, err := d.source.Pods(t.Context())
				require.ErrorAs(t, err, new(Problem))
				require.ErrorContains(t, err, kept)
				_, err = d.source.GetSecret(t.Context(), "default", "key")
				require.NotErrorIs(t, err, fs.ErrNotExist)
			}
			require.True(t, d.hasProblem(kept))
			require.True(t, d.hasProblem("f.yaml, document 1"))
			_, err := os.Stat(kept)
			require.NoError(t, err)
			d.writeFile("f.yaml", podYAML("good"))
			d.waitUntil(func() bool { _, err := d.source.Pods(t.Context()); return err == nil })
			require.Equal(t, before, d.pods())
			require.Empty(t, d.source.Problems())
		})
	}
}

// TestRepairedCopyEndsError: the error ends when the file or the copy is removed, or the copy is repaired,
// while the source runs.
func TestRepairedCopyEndsError(t *testing.T) {
	for name, test := range map[string]struct {
		mend func(d *testDir, kept string) error
		pods int
	}{
		"manifest removed": {func(d *testDir, _ string) error { return os.Remove(filepath.Join(d.path, "f.yaml")) }, 1},
		"kept one removed": {func(_ *testDir, kept string) error { return os.Remove(kept) }, 1},
		"kept one mended":  {func(_ *testDir, kept string) error { return os.WriteFile(kept, []byte(podYAML("good")), 0o600) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d, kept, _ := newTornDir(t, corruptions["empty"])
			d.run()
			d.waitUntil(func() bool { return d.hasProblem(kept) })
			require.NoError(t, test.mend(d, kept))
			d.waitUntil(func() bool {
				pods, err := d.source.Pods(t.Context())
				return err == nil && len(pods) == test.pods
			})
			select {
			case <-d.source.Changed():
			case <-time.After(time.Minute):
				t.Fatal("no change is reported")
			}
			require.False(t, d.hasProblem(kept))
		})
	}
}

// TestEqualCopyIsNotRewritten: a start does not rewrite an equal copy.
func TestEqualCopyIsNotRewritten(t *testing.T) {
	k := copyStore(filepath.Join(t.TempDir(), "a", "keep"))
	require.NoError(t, k.write("f.yaml", []byte("text")))
	before, err := os.Stat(k.path("f.yaml"))
	require.NoError(t, err)
	require.NoError(t, k.write("f.yaml", []byte("text")))
	after, err := os.Stat(k.path("f.yaml"))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.NoError(t, k.write("f.yaml", []byte("other")))
	text, err := k.read("f.yaml")
	require.NoError(t, err)
	require.Equal(t, "other", string(text))
}

// TestStaleCopiesAreRemoved: only copies are removed from the directory.
func TestStaleCopiesAreRemoved(t *testing.T) {
	keep := t.TempDir()
	foreign := []string{".hidden.yaml", ".new-1", "gone.yaml", "notes.txt"}
	for _, name := range append([]string{".new-1.kept", "gone.yaml.kept"}, foreign...) {
		require.NoError(t, os.WriteFile(filepath.Join(keep, name), []byte("precious"), 0o600))
	}
	d := newDir(t, func(c *Config) { c.Keep = keep })
	d.writeFile("f.yaml", podYAML("good"))
	require.Len(t, d.pods(), 1)
	entries, err := os.ReadDir(keep)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.ElementsMatch(t, append([]string{"f.yaml.kept"}, foreign...), names)
}

// TestKeepMustNotBeDir: Keep and Dir must differ, under any names.
func TestKeepMustNotBeDir(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	for _, keep := range []string{dir, dir + "/x/..", link} {
		_, err := New(t.Context(), Config{Dir: dir, Keep: keep})
		require.ErrorContains(t, err, "Config.Keep")
	}
	_, err := New(t.Context(), Config{Dir: dir + "/missing", Keep: dir + "/missing"})
	require.ErrorContains(t, err, "Config.Keep")
	for _, keep := range []string{"", dir + "/keep", filepath.Dir(dir)} {
		_, err := New(t.Context(), Config{Dir: dir, Keep: keep})
		require.NoError(t, err)
	}
}
