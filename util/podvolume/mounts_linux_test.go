package podvolume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
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
		testSetUpNew(t, NewMounts(host, m), root+"/pods/1", mount.Request{Source: dir + "/source"})
	}
}

// testSetUpNew: the parents are created up to the root, in memory and on disk, for a mounter and for
// one that wraps it.
func testSetUpNew(t *testing.T, p *Mounts, pod string, req mount.Request) {
	wrapped := NewMounts(p.host, testbed.Wrapped{Interface: p.mounter})
	identifier, ok := mount.As[mount.Identifier](wrapped.mounter)
	require.True(t, ok)
	_, err := identifier.MountID(t.Context(), "/")
	supported := !errors.Is(err, errors.ErrUnsupported) // since Linux 6.8
	for _, ctx := range []context.Context{t.Context(), context.Background()} {
		for _, p := range []*Mounts{p, wrapped} {
			at := pod + "/volumes/plugin/volume"
			done, err := p.SetUpNew(ctx, at, req, nil)
			require.NoError(t, err)
			require.Equal(t, supported, done)
			if !done {
				require.NoDirExists(t, pod)
				return
			}
			require.FileExists(t, at+"/file")
			done, err = p.SetUpNew(ctx, at, req, nil)
			require.NoError(t, err)
			require.False(t, done, "it exists")
			require.NoError(t, p.TearDown(ctx, at))
			require.NoDirExists(t, at)
			require.NoError(t, os.RemoveAll(filepath.Dir(pod)))

			broken := req
			broken.Source += "/none"
			done, err = p.SetUpNew(ctx, at, broken, nil)
			require.NoError(t, err)
			require.False(t, done)
			require.NoDirExists(t, filepath.Dir(pod), "the new parents are removed")
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	done, err := p.SetUpNew(ended, pod, req, nil)
	require.NoError(t, err)
	require.False(t, done)
	require.NoDirExists(t, pod)
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
		ends := 0
		end := func() { ends++ }
		_, err := p.SetUpNew(ctx, filepath.Dir(filepath.Dir(at))+"/outside", req, end)
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 1, ends)
		require.NoError(t, p.Exclusively(ctx, at, func(ctx context.Context, at string) error {
			done, err := p.SetUpNew(ctx, at, req, end)
			require.False(t, done, "another operation is at work")
			require.Equal(t, 2, ends)
			return err
		}))
		require.NoDirExists(t, at)
	}
}
