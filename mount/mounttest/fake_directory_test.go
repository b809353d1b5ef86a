package mounttest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

// TestFakeDirectory: the Fake does the common case of a DirectoryMounter, and logs it as the general
// calls.
func TestFakeDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/source", 0o755))
	f := NewFake(mount.Config{})
	at := dir + "/pods/1/volume"
	mounted, err := f.MountNew(t.Context(), mount.Request{Source: dir + "/source", Target: at}, mount.NewDirectory{Perm: 0o750, Below: dir})
	require.NoError(t, err)
	require.True(t, mounted)
	is, err := f.IsMountPoint(t.Context(), at)
	require.NoError(t, err)
	require.True(t, is)
	unmounted, removed := f.UnmountRemove(t.Context(), at, mount.NoWait)
	require.True(t, unmounted && removed)
	require.NoDirExists(t, at)
	unmounted, removed = f.UnmountRemove(t.Context(), at, mount.NoWait)
	require.True(t, !unmounted && removed)
	require.DirExists(t, filepath.Dir(at), "the parent stays")
	var ops []string
	for _, action := range f.Log() {
		ops = append(ops, action.Op)
	}
	require.Equal(t, []string{OpMount, OpIsMountPoint, OpUnmount}, ops)
}

// TestFakeDirectoryDeclines: the general calls meet the faults, and wait for other calls on the
// target. A Fake on other files than the system's makes no directories.
func TestFakeDirectoryDeclines(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	requireDeclined := func(f *Fake, why string) {
		t.Helper()
		mounted, err := f.MountNew(t.Context(), mount.Request{Source: dir, Target: dir + "/new"}, mount.NewDirectory{Perm: 0o750})
		require.NoError(t, err, why)
		require.False(t, mounted, why)
		unmounted, removed := f.UnmountRemove(t.Context(), dir+"/new", mount.MayWait)
		require.False(t, unmounted || removed, why)
		require.NoDirExists(t, dir+"/new", why)
		require.Empty(t, f.Log(), why)
	}
	f := NewFake(mount.Config{})
	f.Inject(Fault{Op: OpMount, Path: "/elsewhere", Err: errors.New("injected")})
	requireDeclined(f, "a fault")
	f.ClearFaults()
	unlock, err := f.targets.Lock(t.Context(), dir+"/new")
	require.NoError(t, err)
	requireDeclined(f, "another call on the target")
	unlock()
	memory := &MemoryFiles{}
	require.NoError(t, memory.MkdirAll(dir, 0o755))
	requireDeclined(NewFakeOn(mount.Config{}, memory), "other files")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, removed := f.UnmountRemove(ended, dir+"/new", mount.MayWait)
	require.False(t, removed)
	mounted, err := f.MountNew(t.Context(), mount.Request{Source: dir, Target: dir + "/new"}, mount.NewDirectory{Perm: 0o750})
	require.NoError(t, err)
	require.True(t, mounted)
}

// TestFakeDirectoryIsWatched: a watcher hears of the changes.
func TestFakeDirectoryIsWatched(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	f := NewFake(mount.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}, 10), make(chan error)
	go func() { ended <- f.Watch(ctx, func() { changes <- struct{}{} }) }()
	<-changes // the watch begins
	_, err = f.MountNew(t.Context(), mount.Request{Source: dir, Target: dir + "/new"}, mount.NewDirectory{Perm: 0o750})
	require.NoError(t, err)
	<-changes
	f.UnmountRemove(t.Context(), dir+"/new", mount.NoWait)
	<-changes
	cancel()
	<-ended
}
