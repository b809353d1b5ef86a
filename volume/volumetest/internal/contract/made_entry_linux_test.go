package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// TestEarlierFilesAreUsers: an entry from the time before SetUp is none of the plugin, however the configuration
// spells its storage, and a link that leads out of the volume is not followed.
func TestEarlierFilesAreUsers(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	store := filepath.Join(root, "store")
	require.NoError(t, os.MkdirAll(filepath.Join(store, "users"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(store, "users", "file"), nil, 0o600))
	require.NoError(t, os.Symlink(store, filepath.Join(root, "link")))
	c := &contract{T: t, mounter: mounttest.NewFake(mount.Config{}), devices: map[string]bool{}}
	c.host, err = volume.NewHost(t.Context(), root)
	require.NoError(t, err)
	for _, spelled := range []string{store, store + "/", store + "/.", filepath.Join(root, "link"), filepath.Join(root, "missing")} {
		v := &plantedVolume{contract: c, earlier: map[string]bool{}}
		v.setStore(spelled)
		if filepath.Base(spelled) != "missing" {
			require.Equal(t, store, v.store, spelled)
			require.Equal(t, map[string]bool{"users": true, "users/file": true}, v.earlier, spelled)
		}
	}

	v := &plantedVolume{contract: c, dir: store, earlier: map[string]bool{"users": true, "users/file": true}}
	require.Empty(t, v.madeEntries())
	require.NoError(t, os.MkdirAll(filepath.Join(store, "sub", "empty"), 0o700))
	require.NoError(t, os.Symlink("sub", filepath.Join(store, "in")))
	require.NoError(t, os.Symlink(root, filepath.Join(store, "out")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(store, "sub", "fifo"), 0o600))
	in, sub := madeEntry{"in", fs.ModeSymlink}, madeEntry{"sub", fs.ModeDir}
	require.Equal(t, []madeEntry{in, {"out", fs.ModeSymlink}, sub, {"sub/empty", fs.ModeDir}, {"sub/fifo", fs.ModeNamedPipe}}, v.madeEntries())
	below := map[string]fs.FileMode{"empty": fs.ModeDir, "fifo": fs.ModeNamedPipe}
	require.Equal(t, below, v.below(sub))
	require.Equal(t, below, v.below(in))
	require.Empty(t, v.below(madeEntry{"out", fs.ModeSymlink}))

	// A mount in the volume is not one of its entries.
	for target, source := range map[string]string{"sub/empty": store + "/users", "sub/fifo": store + "/users/file"} {
		require.NoError(t, c.mounter.Mount(t.Context(), mount.Request{Source: source, Target: filepath.Join(store, target)}))
	}
	require.Equal(t, []madeEntry{in, {"out", fs.ModeSymlink}, sub}, v.madeEntries())
	of := &plantedVolume{contract: c, earlier: map[string]bool{}}
	of.setStore(store)
	for _, name := range []string{"users/file", "sub", "sub/empty", "sub/empty/hidden", "in"} {
		require.True(t, of.isUsers(name), name)
	}
	for _, name := range []string{"sub/emptyish", "new", "users/new"} {
		require.False(t, of.isUsers(name), name)
	}
	v.remove(v.madeEntries(), func(madeEntry) bool { return true })
	require.Equal(t, []madeEntry{sub}, v.madeEntries())
	require.DirExists(t, store+"/sub/empty")
	require.FileExists(t, store+"/users/file")
}

// TestEntriesIn: a directory that the caller may not read, or that is removed meanwhile, is no error.
func TestEntriesIn(t *testing.T) {
	refused := map[string]error{"secret": syscall.EACCES, "gone": syscall.ENOENT}
	dir := refusingFS{fstest.MapFS{"secret/file": {}, "gone/file": {}, "seen/file": {}, "mounted/file": {}, "mount": {}}, refused}
	isMountPoint := func(name string) bool { return strings.HasPrefix(name, "mount") }
	all, hidden, err := entriesIn(dir, isMountPoint)
	require.NoError(t, err)
	require.Equal(t, map[string]fs.FileMode{"secret": fs.ModeDir, "gone": fs.ModeDir, "seen": fs.ModeDir, "seen/file": 0}, all)
	require.Equal(t, []string{"mount", "mounted", "secret"}, hidden)
	for _, name := range []string{".", "seen"} {
		refused[name] = syscall.EIO
		_, _, err = entriesIn(dir, isMountPoint)
		require.ErrorIs(t, err, syscall.EIO, name)
		delete(refused, name)
	}
}

// A refusingFS does not open some directories.
type refusingFS struct {
	fstest.MapFS
	refused map[string]error
}

func (f refusingFS) Open(name string) (fs.File, error) {
	if err := f.refused[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f.MapFS.Open(name)
}

func (f refusingFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.refused[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f.MapFS.ReadDir(name)
}

// TestWatchNames: an entry that is gone after the work is seen, also below a directory; one that stays is not.
func TestWatchNames(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub", "deeper"), 0o700))
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("moved"), nil, 0o600))
	c := &contract{T: t}
	require.Equal(t, map[string]fs.FileMode{"sub/deeper/file.tmp": 0, "next": fs.ModeDir, "moved": 0}, c.watchNames(dir, func() {
		require.NoError(t, os.WriteFile(at("sub/deeper/file.tmp"), nil, 0o600))
		require.NoError(t, os.Rename(at("sub/deeper/file.tmp"), at("sub/deeper/file")))
		require.NoError(t, os.Mkdir(at("next"), 0o700))
		require.NoError(t, os.Rename(at("next"), at("now")))
		require.NoError(t, os.Rename(at("moved"), at("away")))
		require.NoError(t, os.Symlink("now", at("link")))
	}))
	require.Empty(t, c.watchNames(dir, func() {}))
}

// TestWatchNamesWithoutInotify: a kernel without inotify, or a process without a free descriptor, sees no names,
// and the work is done.
func TestWatchNamesWithoutInotify(t *testing.T) {
	file, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer file.Close()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: before.Max}))
	done := false
	gone := (&contract{T: t}).watchNames("/", func() { done = true })
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	require.Empty(t, gone)
	require.True(t, done)
}

func TestIsImpossible(t *testing.T) {
	impossible := []syscall.Errno{
		syscall.EROFS, syscall.EPERM, syscall.EACCES, syscall.EXDEV, syscall.EEXIST, syscall.ENOENT, syscall.ENOTDIR, syscall.ENOSPC,
		syscall.EDQUOT, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EINVAL,
	}
	for _, errno := range impossible {
		require.True(t, isImpossible(&os.LinkError{Op: "link", Err: errno}), errno)
	}
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ELOOP, syscall.ESTALE, syscall.EMLINK, syscall.EINTR} {
		require.False(t, isImpossible(&os.LinkError{Op: "link", Err: errno}), errno)
	}
	require.False(t, isImpossible(nil))
}
