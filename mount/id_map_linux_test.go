package mount_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestOtherIDMapIsRefused: a mount with another ID map does not satisfy a request.
func TestOtherIDMapIsRefused(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	m := mount.New(mount.Config{})
	dir := mkdirs(t, "fs", "target")
	mountTmpfs(t, m, dir+"/fs")
	few := []mount.IDRange{{Stored: 0, Shown: 1000, Count: 10}, {Stored: 20, Shown: 3000, Count: 10}}
	var many []mount.IDRange
	for i := range uint32(9) {
		many = append(many, mount.IDRange{Stored: 100 - 10*i, Shown: 5000 + 10*i, Count: 5})
	}
	for _, ids := range [][]mount.IDRange{few, many} {
		req := mount.Request{Source: dir + "/fs", Target: dir + "/target", IDMap: mount.IDMap{UIDs: ids, GIDs: ids}}
		err := m.Mount(t.Context(), req)
		if errors.Is(err, errors.ErrUnsupported) {
			mounttest.SkipWithout(t, "idmap", err)
		}
		require.NoError(t, err)
		require.NoError(t, m.Mount(t.Context(), req), "Mount is idempotent")
		if mount.HasMappedIDs(req.Target) {
			req.IDMap.UIDs = []mount.IDRange{{Stored: 0, Shown: 7000, Count: 10}}
			require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrMounted)
			req.IDMap.UIDs, req.IDMap.GIDs = ids, req.IDMap.UIDs
			require.ErrorIs(t, m.Mount(t.Context(), req), mount.ErrMounted)
		}
		require.NoError(t, m.Unmount(t.Context(), req.Target))
	}
	plain := mount.Request{Source: "x", FSType: "tmpfs", Target: dir + "/target"}
	mapped := plain
	mapped.IDMap = mount.IDMap{UIDs: few, GIDs: few}
	require.NoError(t, m.Mount(t.Context(), plain))
	require.ErrorIs(t, m.Mount(t.Context(), mapped), mount.ErrMounted)
	require.NoError(t, m.Unmount(t.Context(), plain.Target))
	require.NoError(t, m.Mount(t.Context(), mapped))
	require.NoError(t, m.Mount(t.Context(), mapped), "Mount is idempotent")
	require.ErrorIs(t, m.Mount(t.Context(), plain), mount.ErrMounted)
	require.NoError(t, m.Unmount(t.Context(), plain.Target))
}
