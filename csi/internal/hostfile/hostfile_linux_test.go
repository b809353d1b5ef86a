package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	f.sync = func(fd int) error {
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		synced = append(synced, strings.TrimPrefix(name, f.Root))
		return err
	}
	require.NoError(t, f.Write(f.Root+"/dir/file", []byte("text")))
	require.Equal(t, []string{"/dir/file.tmp"}, synced)
	synced = nil
	done, err := f.Overwrite(f.Root+"/dir/file", []byte("text"), []byte("test"))
	require.NoError(t, err)
	require.True(t, done)
	require.Empty(t, synced, "one byte in place is whole without a sync")
	require.NoError(t, f.WriteDurably(f.Root+"/dir/file", []byte("text"), f.Root+"/dir"))
	require.Equal(t, []string{"/dir/file.tmp", "", "/dir"}, synced)
	synced = nil
	require.NoError(t, f.SyncName(f.Root+"/dir/file"))
	require.Equal(t, []string{"/dir"}, synced)
	synced = nil
	require.NoError(t, os.MkdirAll(f.Root+"/dir/a/b/c", 0o750))
	require.NoError(t, f.WriteDurably(f.Root+"/dir/a/b/c/file", []byte("text"), f.Root+"/dir/a"))
	require.Equal(t, []string{"/dir/a/b/c/file.tmp", "/dir/a/b", "/dir/a", "/dir", "/dir/a/b/c"}, synced)
	for _, top := range []string{"/", "", f.Root, f.Root + "/dir/b", f.Root + "/dir/a/b/c/file", f.Root + "/dir/a/"} {
		require.Error(t, f.WriteDurably(f.Root+"/dir/a/b/c/file", []byte("new"), top), top)
	}
	// No name is written after a sync that has failed.
	for i, failed := range []string{"/file.tmp", "/dir"} {
		f.sync = func(fd int) error {
			if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || strings.HasSuffix(name, failed) {
				return errors.New("the disk is broken")
			}
			return nil
		}
		name := fmt.Sprintf("%s/dir/%d/file", f.Root, i)
		require.NoError(t, os.Mkdir(filepath.Dir(name), 0o750))
		require.Error(t, f.WriteDurably(name, []byte("new"), filepath.Dir(name)))
		require.NoFileExists(t, name)
		require.NoFileExists(t, name+TemporarySuffix)
	}
	f.sync = func(int) error { return errors.New("the disk is broken") }
	require.Error(t, f.Write(f.Root+"/dir/file", []byte("new")))
	text, err := f.Read(f.Root+"/dir/file", 10)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
}

// TestOverwrite: one byte of a file with the expected content changes in place.
func TestOverwrite(t *testing.T) {
	f := newFiles(t)
	name := f.Root + "/dir/file"
	stays := func(old, text string) {
		t.Helper()
		done, err := f.Overwrite(name, []byte(old), []byte(text))
		require.NoError(t, err)
		require.False(t, done)
	}
	stays("sent", "send") // missing
	require.NoFileExists(t, name)
	require.NoError(t, f.Write(name, []byte("sent")))
	before, err := os.Stat(name)
	require.NoError(t, err)
	stays("sent", "sent")
	stays("sent", "sends")
	stays("sent", "tens")
	stays("", "")
	stays("lent", "send")
	stays("lent", "bent") // of a file with another content
	stays("sen", "set")
	stays("sents", "sends")
	done, err := f.Overwrite(name, []byte("sent"), []byte("send"))
	require.NoError(t, err)
	require.True(t, done)
	after, err := os.Stat(name)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	text, err := f.Read(name, 10)
	require.NoError(t, err)
	require.Equal(t, "send", string(text))
	require.NoError(t, os.Remove(name))
	require.NoError(t, os.Symlink(f.Root+"/other", name))
	require.NoError(t, os.WriteFile(f.Root+"/other", []byte("sent"), 0o600))
	stays("sent", "send") // a link
	text, err = os.ReadFile(f.Root + "/other")
	require.NoError(t, err)
	require.Equal(t, "sent", string(text))
}

// TestOpenFile: the file that is open changes, by one byte of its content.
func TestOpenFile(t *testing.T) {
	f := newFiles(t)
	name := f.Root + "/dir/file"
	_, err := f.OpenFile(name, 10)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, f.Write(name, []byte("sent")))
	o, err := f.OpenFile(name, 10)
	require.NoError(t, err)
	require.Equal(t, "sent", string(o.Text()))
	for _, test := range []struct {
		text string
		done bool
	}{{"sent", false}, {"sends", false}, {"tens", false}, {"bent", true}, {"bent", false}, {"sent", true}, {"bent", true}} {
		done, err := o.Overwrite([]byte(test.text))
		require.NoError(t, err)
		require.Equal(t, test.done, done, test.text)
	}
	require.Equal(t, "bent", string(o.Text()))
	text, err := f.Read(name, 10)
	require.NoError(t, err)
	require.Equal(t, "bent", string(text))
	for range 2 {
		require.NoError(t, o.Close())
	}
	_, err = o.Overwrite([]byte("sent"))
	require.ErrorIs(t, err, syscall.EBADF)
	o, err = f.OpenFile(name, 2)
	require.NoError(t, err)
	require.Equal(t, "be", string(o.Text()))
	require.NoError(t, o.Close())
}

// TestRemoveWithDir: the file, the empty directory beside it and the directory of both are removed; any
// other entry stays.
func TestRemoveWithDir(t *testing.T) {
	f := newFiles(t)
	dir := f.Root + "/dir/volume"
	name := dir + "/file"
	for range 2 {
		require.NoError(t, f.RemoveWithDir(name, "mount"), "missing")
	}
	for _, beside := range []bool{true, false} {
		require.NoError(t, os.Mkdir(dir, 0o750))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		require.NoError(t, os.WriteFile(name+TemporarySuffix, nil, 0o600))
		if beside {
			require.NoError(t, os.Mkdir(dir+"/mount", 0o750))
		}
		require.NoError(t, f.RemoveWithDir(name, "mount"))
		require.NoDirExists(t, dir)
	}
	require.NoError(t, os.MkdirAll(dir+"/mount/data", 0o750))
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.ErrorIs(t, f.RemoveWithDir(name, "mount"), syscall.ENOTEMPTY)
	require.FileExists(t, name, "the directory has data")
	require.ErrorIs(t, f.RemoveWithDir(name, "file"), syscall.ENOTDIR)
	require.FileExists(t, name)
	for _, beside := range []string{"..", "mount/data", "../volume"} {
		require.Error(t, f.RemoveWithDir(name, beside), beside)
		require.FileExists(t, name)
	}
	require.ErrorIs(t, f.RemoveWithDir(name, "other"), syscall.ENOTEMPTY)
	require.DirExists(t, dir+"/mount/data")
	f.Root += "/root"
	require.NoError(t, os.Mkdir(f.Root, 0o750))
	require.Error(t, f.RemoveWithDir(f.Root+"/file", "mount"), "the root stays")
	require.DirExists(t, f.Root)
}

// TestWrite: a file is replaced whole, also after an interrupted write, and removed with its temporary
// one.
func TestWrite(t *testing.T) {
	f := newFiles(t)
	name := f.Root + "/dir/file"
	_, err := f.Read(name, 10)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, write := range []func(name string, text []byte) error{
		f.Write, func(name string, text []byte) error { return f.WriteDurably(name, text, filepath.Dir(name)) },
	} {
		require.NoError(t, os.WriteFile(name+TemporarySuffix, []byte("a longer torn text"), 0o600))
		require.NoError(t, write(name, []byte("text")))
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
		require.Error(t, f.Write(name, nil), name)
		require.Error(t, f.WriteDurably(name, nil, f.Root+"/dir"), name)
		_, err = f.Overwrite(name, []byte("secret"), []byte("secreT"))
		require.Error(t, err, name)
		require.Error(t, f.Remove(name), name)
		require.Error(t, f.RemoveWithDir(name, "mount"), name)
		_, err = f.ReadLink(name)
		require.Error(t, err, name)
		require.Error(t, f.MakeLink("x", name), name)
		require.Error(t, f.RemoveLink(name), name)
		require.Error(t, f.RemoveOne(name), name)
		require.Error(t, f.SyncName(name), name)
	}
	_, err := f.Read(f.Root+"/dir/file", 10)
	require.ErrorIs(t, err, ErrNotRegular)
	_, err = f.Read(f.Root+"/dir", 10)
	require.ErrorIs(t, err, ErrNotRegular)
	require.ErrorIs(t, f.RemoveOne(f.Root+"/dir"), ErrNotRegular)
	require.NoError(t, f.Write(f.Root+"/dir/file", []byte("new")), "the link is replaced")
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
