package mount_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// crowded makes a file system with so many mounts in it that the sources in it are
// cloned from an anchor, which is kept, and some directories.
func crowded(t *testing.T) (m *mount.Mounter, dir string) {
	t.Helper()
	mount.KeepAnchors(time.Hour)
	m = mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	dir = mkdirs(t, "fs", "target")
	fs := dir + "/fs"
	tmpfs(t, m, fs)
	require.NoError(t, os.MkdirAll(fs+"/a/source/sub", 0o755))
	require.NoError(t, os.WriteFile(fs+"/a/file", nil, 0o644))
	for i := range 300 {
		target := fmt.Sprintf("%s/many/%d", fs, i)
		require.NoError(t, os.MkdirAll(target, 0o755))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: fs + "/a/source", Target: target}))
	}
	return m, dir
}

// TestAnchor: what is bound from a crowded mount is what a clone of the mount
// itself would be.
func TestAnchor(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m, dir := crowded(t)
	fs, target := dir+"/fs", dir+"/target"
	if m.HasEvents() {
		require.NotZero(t, m.Anchors())
	}
	req := mount.Request{Source: fs + "/a/source", Target: target}

	require.NoError(t, m.Mount(t.Context(), req))
	require.NoError(t, os.WriteFile(target+"/sub/x", nil, 0o600))
	require.FileExists(t, fs+"/a/source/sub/x")
	require.Equal(t, "/a/source", tableAt(t, m, target).Root)
	refs, err := m.MountRefs(t.Context(), target)
	require.NoError(t, err)
	require.Len(t, refs, 300)
	require.NoError(t, m.Unmount(t.Context(), target))

	// The mount's flags are those of now, not of when the anchor was made.
	require.NoError(t, m.Mount(t.Context(), mount.Request{Target: fs, Options: []string{"ro", "noexec"}, Remount: true}))
	require.NoError(t, m.Mount(t.Context(), req))
	require.NotZero(t, tableAt(t, m, target).Flags&mount.ReadOnly)
	require.NotZero(t, tableAt(t, m, target).Flags&mount.NoExec)
	require.NoError(t, m.Unmount(t.Context(), target))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Target: fs, Options: []string{"rw"}, Remount: true}))
	require.NoError(t, m.Mount(t.Context(), req))
	require.Zero(t, tableAt(t, m, target).Flags&mount.ReadOnly)
	require.NoError(t, m.Unmount(t.Context(), target))

	// Something is mounted over the source, or on the way to it.
	for _, over := range []string{"/a/source", "/a"} {
		tmpfs(t, m, fs+over)
		require.NoError(t, os.MkdirAll(fs+"/a/source/new", 0o755))
		require.NoError(t, m.Mount(t.Context(), req))
		require.DirExists(t, target+"/new", "what is visible is what is bound")
		require.NoError(t, m.Unmount(t.Context(), target))
		require.NoError(t, m.Unmount(t.Context(), fs+over))
	}
	// Something is mounted below it.
	tmpfs(t, m, fs+"/a/source/sub")
	require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrSubmounts)
	req.Submounts = mount.HideSubmounts
	require.NoError(t, m.Mount(t.Context(), req))
	require.FileExists(t, target+"/sub/x")
	require.NoError(t, m.Unmount(t.Context(), target))
	req.Submounts = mount.IncludeSubmounts
	require.NoError(t, m.Mount(t.Context(), req))
	require.True(t, isMountPoint(t, target+"/sub"))
	require.NoError(t, m.UnmountTree(t.Context(), target))
	require.NoError(t, m.Unmount(t.Context(), fs+"/a/source/sub"))

	// A bind mount that is to stay in touch with its source.
	require.NoError(t, unix.Mount("", fs, "", unix.MS_SHARED, ""))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: fs + "/a", Target: target, Propagation: mount.PropagationSlave}))
	tmpfs(t, m, fs+"/a/source/sub")
	require.True(t, isMountPoint(t, target+"/source/sub"))
	require.NoError(t, m.Unmount(t.Context(), fs+"/a/source/sub"))
	require.NoError(t, m.Unmount(t.Context(), target))

	// A file, and the whole.
	require.NoError(t, os.WriteFile(dir+"/to", nil, 0o600))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: fs + "/a/file", Target: dir + "/to"}))
	require.NoError(t, m.Unmount(t.Context(), dir+"/to"))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: fs, Target: target, Submounts: mount.HideSubmounts}))
	require.DirExists(t, target+"/a/source")
	require.NoError(t, m.Unmount(t.Context(), target))
}

// TestAnchorMoved: mounts are known where they are, also when what they are in has
// been moved.
func TestAnchorMoved(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m, dir := crowded(t)
	require.NoError(t, os.MkdirAll(dir+"/moved", 0o755))
	req := mount.Request{Source: dir + "/fs/a/source", Target: dir + "/target"}
	require.NoError(t, m.Mount(t.Context(), req))
	require.NoError(t, m.Unmount(t.Context(), req.Target))
	require.NoError(t, os.MkdirAll(dir+"/fs/a/source/below", 0o755))
	tmpfs(t, m, dir+"/fs/a/source/below")
	require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrSubmounts)
	require.NoError(t, unix.Mount(dir+"/fs", dir+"/moved", "", unix.MS_MOVE, ""))
	req.Source = dir + "/moved/a/source"
	require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrSubmounts)
	require.NoError(t, m.Unmount(t.Context(), dir+"/moved/a/source/below"))
	require.NoError(t, m.Mount(t.Context(), req))
	tmpfs(t, m, dir+"/moved/a/source/below")
	require.NoError(t, m.Unmount(t.Context(), req.Target))
	require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrSubmounts)
}

// TestAnchorIsDropped: nothing keeps a file system alive for long.
func TestAnchorIsDropped(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m, dir := crowded(t)
	if !m.HasEvents() {
		mounttest.SkipWithout(t, "mountevents", "no anchors without them")
	}
	require.NotZero(t, m.Anchors())
	require.NoError(t, m.Close())
	require.Zero(t, m.Anchors())

	mount.KeepAnchors(10 * time.Millisecond)
	m = mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	bind := mount.Request{Source: dir + "/fs/a/source", Target: dir + "/target"}
	require.NoError(t, m.Mount(t.Context(), bind))
	require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
	require.Eventually(t, func() bool { return m.Anchors() == 0 }, time.Minute, 10*time.Millisecond)
	mount.KeepAnchors(time.Hour)

	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/fs/a/source", Target: dir + "/target"}))
	require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
	require.NotZero(t, m.Anchors())
	require.NoError(t, m.UnmountTree(t.Context(), dir+"/fs"))
	require.Zero(t, m.Anchors(), "its file system was to end")
}
