package mount_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

// TestZeroMounter: the zero Mounter refuses every call with an InputError, also after Close.
func TestZeroMounter(t *testing.T) {
	m, dir := new(mount.Mounter), t.TempDir()
	ctx, req := t.Context(), mount.Request{Source: dir, Target: dir}
	result := func(_ any, err error) error { return err }
	for range 2 {
		for name, err := range map[string]error{
			"Mount":        m.Mount(ctx, req),
			"Unmount":      m.Unmount(ctx, dir),
			"UnmountTree":  m.UnmountTree(ctx, dir),
			"Isolate":      m.Isolate(ctx, dir),
			"IsMountPoint": result(m.IsMountPoint(ctx, dir)),
			"MountID":      result(m.MountID(ctx, dir)),
			"MountRefs":    result(m.MountRefs(ctx, dir)),
			"MountsFrom":   result(m.MountsFrom(ctx, dir)),
			"Resolve":      result(m.Resolve(ctx, dir)),
			"FollowLinks":  result(m.FollowLinks(ctx, dir)),
			"List":         result(m.List(ctx)),
			"Watch":        m.Watch(ctx, func() { t.Error("changed") }),
			"WatchMounts":  m.WatchMounts(ctx, func(mount.TableChange) { t.Error("changed") }),
		} {
			var input *mount.InputError
			require.ErrorAs(t, err, &input, name)
			require.Equal(t, "Mounter", input.Field, name)
			require.ErrorContains(t, err, "must be made by New", name)
		}
		mounted, err := m.MountNew(ctx, req, mount.NewDirectory{Perm: 0o700, Wait: mount.MayWait})
		require.NoError(t, err)
		require.False(t, mounted)
		unmounted, removed := m.UnmountRemove(ctx, dir, mount.MayWait)
		require.False(t, unmounted || removed)
		require.NoError(t, m.Close())
	}
}
