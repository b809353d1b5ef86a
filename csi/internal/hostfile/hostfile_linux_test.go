package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func newFiles(t *testing.T) Files {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(root+"/dir", 0o750))
	return Files{Root: root}
}

// TestSync: the content of a file is on disk before its name replaces the old content, and a durable name,
// of a file or of a new directory, when the call returns.
func TestSync(t *testing.T) {
	f := newFiles(t)
	var synced []string
	f.sync = func(file *os.File) error {
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
		synced = append(synced, strings.TrimPrefix(name, f.Root))
		return err
	}
	require.NoError(t, f.Write(f.Root+"/dir/file", []byte("text"), Atomic))
	require.Equal(t, []string{"/dir/file.tmp"}, synced)
	synced = nil
	require.NoError(t, f.Write(f.Root+"/dir/file", []byte("text"), Durable))
	require.Equal(t, []string{"/dir/file.tmp", "/dir"}, synced)
	synced = nil
	require.NoError(t, os.MkdirAll(f.Root+"/dir/a/b/c", 0o750))
	require.NoError(t, f.SyncMade(f.Root+"/dir/a", f.Root+"/dir/a/b/c"))
	require.Equal(t, []string{"/dir/a/b", "/dir/a", "/dir"}, synced)
	require.Error(t, f.SyncMade("/", "/"))
	f.sync = func(*os.File) error { return errors.New("the disk is broken") }
	require.Error(t, f.Write(f.Root+"/dir/file", []byte("new"), Atomic))
	text, err := f.Read(f.Root+"/dir/file", 10)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
}

// TestWrite: a file is replaced whole, also after an interrupted write, and removed with its temporary
// one.
func TestWrite(t *testing.T) {
	f := newFiles(t)
	name := f.Root + "/dir/file"
	_, err := f.Read(name, 10)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, durability := range []Durability{Durable, Atomic} {
		require.NoError(t, os.WriteFile(name+TemporarySuffix, []byte("a longer torn text"), 0o600))
		require.NoError(t, f.Write(name, []byte("text"), durability))
		text, err := f.Read(name, 10)
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
		require.NoFileExists(t, name+TemporarySuffix)
	}
	text, err := f.Read(name, 2)
	require.NoError(t, err)
	require.Equal(t, "te", string(text))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	require.NoError(t, os.WriteFile(name+TemporarySuffix, nil, 0o600))
	for range 2 {
		require.NoError(t, f.Remove(name))
	}
	entries, err := os.ReadDir(f.Root + "/dir")
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestHostilePaths: no path leads out of the root, and no link is followed.
func TestHostilePaths(t *testing.T) {
	f := newFiles(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/secret", []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(outside, f.Root+"/link"))
	require.NoError(t, os.Symlink(outside+"/secret", f.Root+"/dir/file"))
	for _, name := range []string{outside + "/secret", f.Root + "/../secret", f.Root + "/dir/../../secret", f.Root, "", f.Root + "/link/secret", f.Root + "/dir/"} {
		_, err := f.Read(name, 10)
		require.Error(t, err, name)
		require.Error(t, f.Write(name, nil, Atomic), name)
		_, err = f.ReadLink(name)
		require.Error(t, err, name)
		require.Error(t, f.MakeLink("x", name), name)
		require.Error(t, f.RemoveLink(name), name)
		require.Error(t, f.RemoveOne(name), name)
	}
	_, err := f.Read(f.Root+"/dir/file", 10)
	require.ErrorIs(t, err, ErrNotRegular)
	_, err = f.Read(f.Root+"/dir", 10)
	require.ErrorIs(t, err, ErrNotRegular)
	require.ErrorIs(t, f.RemoveOne(f.Root+"/dir"), ErrNotRegular)
	require.NoError(t, f.Write(f.Root+"/dir/file", []byte("new"), Durable), "the link is replaced")
	text, err := os.ReadFile(outside + "/secret")
	require.NoError(t, err)
	require.Equal(t, "secret", string(text))
}

// TestLinks: links are created once, read and removed; other entries stay.
func TestLinks(t *testing.T) {
	f := newFiles(t)
	name := f.Root + "/dir/link"
	_, err := f.ReadLink(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, f.MakeLink("/to", name))
	require.ErrorIs(t, f.MakeLink("/other", name), fs.ErrExist)
	to, err := f.ReadLink(name)
	require.NoError(t, err)
	require.Equal(t, "/to", to)
	for range 2 {
		require.NoError(t, f.RemoveLink(name))
	}
	require.NoError(t, os.WriteFile(name, []byte("precious"), 0o600))
	_, err = f.ReadLink(name)
	require.ErrorIs(t, err, ErrNotLink)
	require.ErrorIs(t, f.RemoveLink(name), ErrNotLink)
	require.FileExists(t, name)
}
