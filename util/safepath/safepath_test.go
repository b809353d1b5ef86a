package safepath_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/safepath"
)

func TestOnlyStrictlyBelowTheRoot(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{
		"", "/", ".", "a", root, root + "/", root + "//", root + "/.", root + "x",
		root + "/a/../b", root + "/..", "/../" + root + "/a", root + "/a\x00b",
	} {
		_, err := safepath.MkdirAll(t.Context(), root, name, 0o755)
		require.Error(t, err, "%q", name)
		if name == "" || name[0] != '/' || strings.Contains(name, "..") {
			require.Error(t, safepath.Rmdir(t.Context(), name), "%q", name)
		}
	}
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestParentsMayVanishMeanwhile(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	stop := make(chan struct{})
	var remover sync.WaitGroup
	remover.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Microsecond):
				_ = safepath.Rmdir(t.Context(), root+"/a/b")
				_ = safepath.Rmdir(t.Context(), root+"/a")
			}
		}
	})
	for range 2000 {
		_, err := safepath.MkdirAll(t.Context(), root, root+"/a/b/c", 0o755)
		require.NoError(t, err)
		require.NoError(t, safepath.Rmdir(t.Context(), root+"/a/b/c"))
	}
	close(stop)
	remover.Wait()
}

func FuzzMkdirAll(f *testing.F) {
	for _, name := range []string{"a", "a/b", "../x", "", "/", "a//b/", "\x00", "a/./b", "..."} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		top, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(top+"/root", 0o755))
		made, err := safepath.MkdirAll(t.Context(), top+"/root", top+"/root/"+name, 0o755)
		beside, readErr := os.ReadDir(top)
		require.NoError(t, readErr)
		require.Len(t, beside, 1, "something was made outside the root")
		if err == nil && made != "" {
			require.NoError(t, safepath.RemoveMade(t.Context(), made, top+"/root/"+name))
		}
		left, readErr := os.ReadDir(top + "/root")
		require.NoError(t, readErr)
		require.True(t, err != nil || len(left) == 0, "something was left")
	})
}
