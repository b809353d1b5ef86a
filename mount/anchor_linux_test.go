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

// newCrowdedMount returns a mounter and a directory with a tmpfs that has 300 mounts inside, so
// that bind mounts from it are made from an anchor. Anchors are kept for an hour.
func newCrowdedMount(t *testing.T) (m *mount.Mounter, dir string) {
	t.Helper()
	mount.SetAnchorTime(time.Hour)
	m = mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	dir = mkdirs(t, "fs", "target")
	fs := dir + "/fs"
	mountTmpfs(t, m, fs)
	require.NoError(t, os.MkdirAll(fs+"/a/source/sub", 0o755))
	require.NoError(t, os.WriteFile(fs+"/a/file", nil, 0o644))
	for i := range 300 {
		target := fmt.Sprintf("%s/many/%d", fs, i)
		require.NoError(t, os.MkdirAll(target, 0o755))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: fs + "/a/source", Target: target}))
	}
	return m, dir
}

// TestBindFromAnchor: a bind mount made from the anchor of a crowded mount equals a clone of the
// mount itself.
func TestBindFromAnchor(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m, dir := newCrowdedMount(t)
	fs, target := dir+"/fs", dir+"/target"
	if m.HasMountEvents() {
		require.NotZero(t, m.Anchors())
	}
	req := mount.Request{Source: fs + "/a/source", Target: target}

	require.NoError(t, m.Mount(t.Context(), req))
	require.NoError(t, os.WriteFile(target+"/sub/x", nil, 0o600))
	require.FileExists(t, fs+"/a/source/sub/x")
	require.Equal(t, "/a/source", entryAt(t, m, target).Root)
	refs, err := m.MountRefs(t.Context(), target)
	require.NoError(t, err)
	require.Len(t, refs, 300)
	require.NoError(t, m.Unmount(t.Context(), target))

	// The bind mount gets the current flags of the mount, not those from the creation of the
	// anchor.
	require.NoError(t, m.Mount(t.Context(), mount.Request{Target: fs, Options: []string{"ro", "noexec"}, Remount: true}))
	require.NoError(t, m.Mount(t.Context(), req))
	require.NotZero(t, entryAt(t, m, target).Flags&mount.ReadOnly)
	require.NotZero(t, entryAt(t, m, target).Flags&mount.NoExec)
	require.NoError(t, m.Unmount(t.Context(), target))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Target: fs, Options: []string{"rw"}, Remount: true}))
	require.NoError(t, m.Mount(t.Context(), req))
	require.Zero(t, entryAt(t, m, target).Flags&mount.ReadOnly)
	require.NoError(t, m.Unmount(t.Context(), target))

	// Another mount covers the source, or a directory above it.
	for _, over := range []string{"/a/source", "/a"} {
		mountTmpfs(t, m, fs+over)
		require.NoError(t, os.MkdirAll(fs+"/a/source/new", 0o755))
		require.NoError(t, m.Mount(t.Context(), req))
		require.DirExists(t, target+"/new", "the visible directory is bound")
		require.NoError(t, m.Unmount(t.Context(), target))
		require.NoError(t, m.Unmount(t.Context(), fs+over))
	}
	// The source has a submount.
	mountTmpfs(t, m, fs+"/a/source/sub")
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

	// A slave bind mount receives later mounts in its source.
	require.NoError(t, unix.Mount("", fs, "", unix.MS_SHARED, ""))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: fs + "/a", Target: target, Propagation: mount.PropagationSlave}))
	mountTmpfs(t, m, fs+"/a/source/sub")
	require.True(t, isMountPoint(t, target+"/source/sub"))
	require.NoError(t, m.Unmount(t.Context(), fs+"/a/source/sub"))
	require.NoError(t, m.Unmount(t.Context(), target))

	// The source is a file, and the root of the mount.
	require.NoError(t, os.WriteFile(dir+"/to", nil, 0o600))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: fs + "/a/file", Target: dir + "/to"}))
	require.NoError(t, m.Unmount(t.Context(), dir+"/to"))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: fs, Target: target, Submounts: mount.HideSubmounts}))
	require.DirExists(t, target+"/a/source")
	require.NoError(t, m.Unmount(t.Context(), target))
}

// TestAnchorOfMovedMount: after a mount was moved, the mounter finds the mounts inside it at
// their new paths.
func TestAnchorOfMovedMount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m, dir := newCrowdedMount(t)
	require.NoError(t, os.MkdirAll(dir+"/moved", 0o755))
	req := mount.Request{Source: dir + "/fs/a/source", Target: dir + "/target"}
	require.NoError(t, m.Mount(t.Context(), req))
	require.NoError(t, m.Unmount(t.Context(), req.Target))
	require.NoError(t, os.MkdirAll(dir+"/fs/a/source/below", 0o755))
	mountTmpfs(t, m, dir+"/fs/a/source/below")
	require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrSubmounts)
	require.NoError(t, unix.Mount(dir+"/fs", dir+"/moved", "", unix.MS_MOVE, ""))
	req.Source = dir + "/moved/a/source"
	require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrSubmounts)
	require.NoError(t, m.Unmount(t.Context(), dir+"/moved/a/source/below"))
	require.NoError(t, m.Mount(t.Context(), req))
	mountTmpfs(t, m, dir+"/moved/a/source/below")
	require.NoError(t, m.Unmount(t.Context(), req.Target))
	require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrSubmounts)
}

// TestAnchorIsClosed: no anchor keeps a file system alive for long. Anchors are closed after
// a time without use, before an unmount of their mount, and by Close.
func TestAnchorIsClosed(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m, dir := newCrowdedMount(t)
	if !m.HasMountEvents() {
		mounttest.SkipWithout(t, "mountevents", "no anchors without them")
	}
	require.NotZero(t, m.Anchors())
	require.NoError(t, m.Close())
	require.Zero(t, m.Anchors())

	mount.SetAnchorTime(10 * time.Millisecond)
	m = mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	bind := mount.Request{Source: dir + "/fs/a/source", Target: dir + "/target"}
	require.NoError(t, m.Mount(t.Context(), bind))
	require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
	require.Eventually(t, func() bool { return m.Anchors() == 0 }, time.Minute, 10*time.Millisecond)
	mount.SetAnchorTime(time.Hour)

	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/fs/a/source", Target: dir + "/target"}))
	require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
	require.NotZero(t, m.Anchors())
	require.NoError(t, m.UnmountTree(t.Context(), dir+"/fs"))
	require.Zero(t, m.Anchors(), "an anchor keeps the file system alive")
}
