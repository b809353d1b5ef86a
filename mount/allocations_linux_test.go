package mount_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestAllocations pins the objects that a bind mount with its unmount, and a check of a mount
// point, allocate on the heap, with and without a context that can end.
func TestAllocations(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	if !slices.Contains(mount.Tiers(), mount.TierTreeAttr) {
		mounttest.SkipWithout(t, "mountevents", "an older kernel needs other calls")
	}
	dir := mkdirs(t, "pods")
	m := mount.New(mount.Config{})
	ctx, pods := t.Context(), filepath.Join(dir, "pods")
	require.NoError(t, m.Mount(ctx, mount.Request{Target: pods, FSType: "tmpfs"}))
	defer func() { require.NoError(t, m.Unmount(context.WithoutCancel(ctx), pods)) }()
	source, target := filepath.Join(pods, "source"), filepath.Join(pods, "target")
	require.NoError(t, os.Mkdir(source, 0o755))
	require.NoError(t, os.Mkdir(target, 0o755))
	for name, ctx := range map[string]context.Context{"ends": ctx, "stays": context.Background()} {
		check := testing.AllocsPerRun(100, func() {
			_, err := m.IsMountPoint(ctx, pods)
			require.NoError(t, err)
		})
		bind := testing.AllocsPerRun(100, func() {
			require.NoError(t, m.Mount(ctx, mount.Request{Source: source, Target: target}))
			require.NoError(t, m.Unmount(ctx, target))
		})
		require.LessOrEqual(t, check, 4.0, name) // measured: 2, and 3 with an end
		require.LessOrEqual(t, bind, 36.0, name) // measured: 28
	}
}
