package safepath

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCreateFile(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, created := range []bool{true, false} {
		is, err := CreateFile(context.Background(), dir, dir+"/file", 0o640)
		require.NoError(t, err)
		require.Equal(t, created, is)
	}
	info, err := os.Stat(dir + "/file")
	require.NoError(t, err)
	require.Zero(t, info.Size())
	require.Zero(t, info.Mode().Perm()&^0o640)

	require.NoError(t, os.Mkdir(dir+"/sub", 0o755))
	require.NoError(t, os.Symlink(dir+"/sub", dir+"/link"))
	require.NoError(t, os.Symlink("none", dir+"/dangling"))
	for name, want := range map[string]error{
		"/sub": syscall.EISDIR, "/link": syscall.ELOOP, "/dangling": syscall.ELOOP, "/none/x": fs.ErrNotExist, "/file/x": nil, "/link/x": nil, "": nil,
	} {
		is, err := CreateFile(context.Background(), dir, dir+name, 0o640)
		require.Error(t, err, name)
		require.False(t, is)
		if want != nil {
			require.ErrorIs(t, err, want, name)
		}
	}
	entries, err := os.ReadDir(dir + "/sub")
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestRemoveEmptyFile(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/empty", nil, 0o600))
	require.NoError(t, os.WriteFile(dir+"/full", []byte("precious"), 0o600))
	require.NoError(t, os.Mkdir(dir+"/sub", 0o755))
	require.NoError(t, os.Symlink("empty", dir+"/link"))
	for _, name := range []string{"/full", "/sub", "/link"} {
		require.ErrorIs(t, RemoveEmptyFile(context.Background(), dir+name), ErrNotEmpty)
		_, err := os.Lstat(dir + name)
		require.NoError(t, err)
	}
	require.NoError(t, RemoveEmptyFile(context.Background(), dir+"/empty"))
	require.NoFileExists(t, dir+"/empty")
	require.ErrorIs(t, RemoveEmptyFile(context.Background(), dir+"/empty"), fs.ErrNotExist)
	require.Error(t, RemoveEmptyFile(context.Background(), "relative"))
	require.Error(t, RemoveEmptyFile(context.Background(), "/"))
}
