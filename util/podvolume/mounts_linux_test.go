package podvolume

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestPodMountsInOneCall sets up and tears down by one call of the kernel's mounter each,
// where the host's root is in memory, and where it may be on a disk.
func TestPodMountsInOneCall(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	m := mount.New(mount.Config{})
	require.NoError(t, os.Mkdir(dir+"/memory", 0o755))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Target: dir + "/memory", FSType: "tmpfs"}))
	defer func() { require.NoError(t, m.Unmount(t.Context(), dir+"/memory")) }()
	require.NoError(t, os.Mkdir(dir+"/source", 0o755))
	require.NoError(t, os.WriteFile(dir+"/source/file", nil, 0o600))
	for _, root := range []string{dir + "/disk", dir + "/memory/root"} {
		require.NoError(t, os.Mkdir(root, 0o755))
		host, err := volume.NewHost(t.Context(), root)
		require.NoError(t, err)
		testAtOnce(t, NewMounts(host, m), root+"/volume", mount.Request{Source: dir + "/source"})
	}
}

func testAtOnce(t *testing.T, p *Mounts, at string, req mount.Request) {
	for _, ctx := range []context.Context{t.Context(), context.Background()} {
		for range 2 {
			require.NoError(t, p.SetUp(ctx, at, req))
			require.FileExists(t, at+"/file")
		}
		require.NoError(t, p.TearDown(ctx, at))
		require.NoDirExists(t, at)
		require.NoError(t, p.TearDown(ctx, at))

		require.NoError(t, os.Mkdir(at, 0o755))
		require.NoError(t, os.WriteFile(at+"/hidden", nil, 0o600))
		require.NoError(t, p.SetUp(ctx, at, req))
		require.ErrorIs(t, p.TearDown(ctx, at), volume.ErrUncertain, "unmounted, and the directory is not empty")
		require.FileExists(t, at+"/hidden")
		require.NotErrorIs(t, p.TearDown(ctx, at), volume.ErrUncertain, "nothing was unmounted")
		require.NoError(t, os.RemoveAll(at))

		var refused *field.Error
		_, err := p.SetUpNew(ctx, filepath.Dir(filepath.Dir(at))+"/outside", req)
		require.ErrorAs(t, err, &refused)
		require.NoError(t, p.Exclusively(ctx, at, func(ctx context.Context, at string) error {
			done, err := p.SetUpNew(ctx, at, req)
			require.False(t, done, "another operation is at work")
			return err
		}))
		require.NoDirExists(t, at)
	}
}
