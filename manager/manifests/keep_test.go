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

// tear makes a directory with a pod that runs, of which neither the file nor what was
// kept of it is in order.
func tear(t *testing.T, broken func(kept string) error) (d *dir, kept string, before map[string]types.UID) {
	t.Helper()
	keep := filepath.Join(t.TempDir(), "keep")
	first := newDir(t, func(c *Config) { c.Keep = keep })
	first.put("f.yaml", podYAML("good"))
	first.put("other.yaml", podYAML("other"))
	before = first.pods()
	require.Len(t, before, 2)
	kept = filepath.Join(keep, "f.yaml.kept")
	first.put("f.yaml", podYAML("good")[:60])
	require.NoError(t, broken(kept))
	d = newDir(t, func(c *Config) { c.Dir, c.Keep = first.path, keep })
	d.path = first.path
	return d, kept, before
}

var tears = map[string]func(kept string) error{
	"empty":  func(kept string) error { return os.Truncate(kept, 0) },
	"torn":   func(kept string) error { return os.Truncate(kept, 60) },
	"zeroes": func(kept string) error { return os.WriteFile(kept, make([]byte, 100), 0o600) },
	"a link": func(kept string) error {
		return errors.Join(os.Remove(kept), os.Symlink("..", kept))
	},
}

// TestKeepTorn: what was kept and cannot be read is an error, and not no pods, until
// the manifest is mended.
func TestKeepTorn(t *testing.T) {
	for name, broken := range tears {
		t.Run(name, func(t *testing.T) {
			d, kept, before := tear(t, broken)
			for range 2 {
				_, err := d.source.Pods(t.Context())
				require.ErrorAs(t, err, new(Problem))
				require.ErrorContains(t, err, kept)
				_, err = d.source.GetSecret(t.Context(), "default", "key")
				require.NotErrorIs(t, err, fs.ErrNotExist)
			}
			require.True(t, d.says(kept))
			require.True(t, d.says("f.yaml, document 1"))
			_, err := os.Stat(kept)
			require.NoError(t, err)
			d.put("f.yaml", podYAML("good"))
			d.eventually(func() bool { _, err := d.source.Pods(t.Context()); return err == nil })
			require.Equal(t, before, d.pods())
			require.Empty(t, d.source.Problems())
		})
	}
}

// TestKeepMended: it ends as well when either of the two is removed, or the kept one is
// put right, while the source runs.
func TestKeepMended(t *testing.T) {
	for name, test := range map[string]struct {
		mend func(d *dir, kept string) error
		pods int
	}{
		"manifest removed": {func(d *dir, _ string) error { return os.Remove(filepath.Join(d.path, "f.yaml")) }, 1},
		"kept one removed": {func(_ *dir, kept string) error { return os.Remove(kept) }, 1},
		"kept one mended":  {func(_ *dir, kept string) error { return os.WriteFile(kept, []byte(podYAML("good")), 0o600) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d, kept, _ := tear(t, tears["empty"])
			d.run()
			d.eventually(func() bool { return d.says(kept) })
			require.NoError(t, test.mend(d, kept))
			d.eventually(func() bool {
				pods, err := d.source.Pods(t.Context())
				return err == nil && len(pods) == test.pods
			})
			select {
			case <-d.source.Changed():
			case <-time.After(time.Minute):
				t.Fatal("nobody told of a change")
			}
			require.False(t, d.says(kept))
		})
	}
}

// TestKeepUnchanged: a start does not write what is there already.
func TestKeepUnchanged(t *testing.T) {
	k := keep(filepath.Join(t.TempDir(), "a", "keep"))
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

// TestKeepPrunes: of what is in the directory only our own files are removed.
func TestKeepPrunes(t *testing.T) {
	keep := t.TempDir()
	foreign := []string{".hidden.yaml", ".new-1", "gone.yaml", "notes.txt"}
	for _, name := range append([]string{".new-1.kept", "gone.yaml.kept"}, foreign...) {
		require.NoError(t, os.WriteFile(filepath.Join(keep, name), []byte("precious"), 0o600))
	}
	d := newDir(t, func(c *Config) { c.Keep = keep })
	d.put("f.yaml", podYAML("good"))
	require.Len(t, d.pods(), 1)
	entries, err := os.ReadDir(keep)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.ElementsMatch(t, append([]string{"f.yaml.kept"}, foreign...), names)
}

// TestKeepIsDir: what is kept is not among the manifests, whatever the two are called.
func TestKeepIsDir(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	for _, keep := range []string{dir, dir + "/x/..", link} {
		_, err := New(Config{Dir: dir, Keep: keep})
		require.ErrorContains(t, err, "Config.Keep")
	}
	_, err := New(Config{Dir: dir + "/missing", Keep: dir + "/missing"})
	require.ErrorContains(t, err, "Config.Keep")
	for _, keep := range []string{"", dir + "/keep", filepath.Dir(dir)} {
		_, err := New(Config{Dir: dir, Keep: keep})
		require.NoError(t, err)
	}
}
