package cachedir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/cachedir"
)

func TestLocate(t *testing.T) {
	t.Setenv("VOLUMEKIT_TEST_CACHE", "/caches/a")
	dir, err := cachedir.Locate("VOLUMEKIT_TEST_CACHE", "things")
	require.NoError(t, err)
	require.Equal(t, "/caches/a", dir)

	t.Setenv("VOLUMEKIT_TEST_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/home/user/cache")
	t.Setenv("HOME", "/home/user/cache")
	dir, err = cachedir.Locate("VOLUMEKIT_TEST_CACHE", "things")
	require.NoError(t, err)
	require.Equal(t, filepath.Join("volumekit", "things"), filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir)))
}

func TestAdd(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "deep", "cache")
	fill := func(content string) func(work, dir string) error {
		return func(work, dir string) error {
			if err := os.WriteFile(filepath.Join(work, "download"), nil, 0o600); err != nil {
				return err
			}
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o600))
		}
	}
	failure := errors.New("no network")
	err := cachedir.Add(cache, "one", func(work, dir string) error { return errors.Join(fill("half")(work, dir), failure) })
	require.ErrorIs(t, err, failure)
	requireNames(t, cache)

	require.NoError(t, cachedir.Add(cache, "one", fill("first")))
	require.NoError(t, cachedir.Add(cache, "one", fill("second")), "another process has built it meanwhile")
	requireNames(t, cache, "one")
	content, err := os.ReadFile(filepath.Join(cache, "one", "file"))
	require.NoError(t, err)
	require.Equal(t, "first", string(content))

	require.Error(t, cachedir.Add(cache, "two", func(string, string) error { return nil }), "build made no directory")
	requireNames(t, cache, "one")
}

func requireNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Equal(t, want, names)
}
