package mount_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// onEachProof runs a test with mounters that receive no mount events. They prove that a
// source has no submounts by unique mount IDs, or in a staging area.
func onEachProof(t *testing.T, test func(t *testing.T, m *mount.Mounter)) {
	for _, uniqueIDs := range []bool{true, false} {
		t.Run(fmt.Sprintf("unique IDs=%v", uniqueIDs), func(t *testing.T) {
			onEachTier(t, mounttest.Namespace, func(t *testing.T, m *mount.Mounter) {
				m.UseFeed("none")
				if !uniqueIDs {
					t.Cleanup(m.WithoutUniqueIDs())
				} else if !mount.HasStatmount() && m.Tier() != mount.TierClassic {
					mounttest.SkipWithout(t, "statmount", "unique mount IDs require Linux 6.8")
				}
				test(t, m)
			})
		})
	}
}

// TestLoneSource: a mounter determines whether a source has submounts without reading the mount
// table, also on kernels without mount events.
func TestLoneSource(t *testing.T) {
	onEachProof(t, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "fs", "target", "file")
		mountTmpfs(t, m, dir+"/fs")
		mountTmpfs(t, m, dir+"/fs/beside")
		require.NoError(t, os.Mkdir(dir+"/fs/source", 0o755))
		req := mount.Request{Source: dir + "/fs/source", Target: dir + "/target", Options: []string{"ro", "noexec"}}
		bind := func() error {
			if mount.HasStatmount() { // otherwise Mount reads flags from the table
				defer mount.WithoutTable()()
			}
			return m.Mount(t.Context(), req)
		}
		for range 3 {
			require.NoError(t, bind())
			info := entryAt(t, m, dir+"/target")
			require.Equal(t, mount.ReadOnly|mount.NoExec|mount.NoSUID|mount.NoDev, info.Flags)
			require.Empty(t, info.Tags)
			require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
		}

		// A directory above the submount is renamed after the mount.
		mountTmpfs(t, m, dir+"/fs/source/a/below")
		require.NoError(t, os.Rename(dir+"/fs/source/a", dir+"/fs/source/b"))
		require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrSubmounts)
		require.ErrorContains(t, m.Mount(t.Context(), req), "/b/below")
		require.False(t, isMountPoint(t, dir+"/target"))
		req.Submounts = mount.HideSubmounts
		require.NoError(t, m.Mount(t.Context(), req))
		require.False(t, isMountPoint(t, dir+"/target/b/below"))
		require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
		left, err := os.ReadDir(dir + "/staging")
		require.True(t, err == nil || os.IsNotExist(err))
		require.Empty(t, left)
	})
}

// TestLoneSourceKeepsSharedMounts: the submounts of a shared source stay mounted, also if the
// request refuses them, or cannot include one because another mount hides it.
func TestLoneSourceKeepsSharedMounts(t *testing.T) {
	onEachProof(t, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "fs", "target")
		mountTmpfs(t, m, dir+"/fs")
		require.NoError(t, unix.Mount("", dir+"/fs", "", unix.MS_SHARED, ""))
		require.NoError(t, os.MkdirAll(dir+"/fs/source/below", 0o755))
		mounts := 0
		for _, submounts := range []mount.Submounts{mount.RefuseSubmounts, mount.IncludeSubmounts} {
			require.NoError(t, unix.Mount("precious", dir+"/fs/source/below", "tmpfs", 0, ""))
			mounts++
			_ = m.Mount(t.Context(), mount.Request{
				Source: dir + "/fs/source", Target: dir + "/target", Submounts: submounts, Options: []string{"noexec"},
			})
			require.NoError(t, m.UnmountTree(t.Context(), dir+"/target"))
			from, err := m.MountsFrom(t.Context(), "precious")
			require.NoError(t, err)
			require.Len(t, from, mounts)
		}
	})
}

// TestLoneSourceDuringMounts: while another thread mounts as well, unique mount IDs alone
// prove less, and the mounter reads the mount table.
func TestLoneSourceDuringMounts(t *testing.T) {
	onEachProof(t, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "source", "parent/below", "target", "other")
		mountTmpfs(t, m, dir+"/parent/below")
		var stop atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !stop.Load() {
				_ = unix.Mount("x", dir+"/other", "tmpfs", 0, "")
				_ = unix.Unmount(dir+"/other", unix.MNT_DETACH)
			}
		}()
		defer func() { stop.Store(true); <-done }()
		for range 50 {
			require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/source", Target: dir + "/target"}))
			require.NoError(t, m.Unmount(t.Context(), dir+"/target"))
			require.ErrorIs(t, m.Mount(t.Context(), mount.Request{Source: dir + "/parent", Target: dir + "/target"}), mount.ErrSubmounts)
		}
	})
}
