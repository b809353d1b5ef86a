package mount_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestMountID: no two mounts have one number, one after the other neither, and the one
// on top is seen; on the kernel and on the fake.
func TestMountID(t *testing.T) {
	t.Run("fake", func(t *testing.T) { testMountID(t, mounttest.NewFake(mount.Config{})) })
	t.Run("real", func(t *testing.T) {
		if mounttest.Namespace(t) {
			testMountID(t, mount.New(mount.Config{}))
		}
	})
}

func testMountID(t *testing.T, m interface {
	mount.Interface
	mount.Identifier
}) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	for _, name := range []string{source, target} {
		require.NoError(t, os.Mkdir(name, 0o755))
	}
	at := func(ctx context.Context) uint64 {
		t.Helper()
		id, err := m.MountID(ctx, target)
		if errors.Is(err, errors.ErrUnsupported) {
			mounttest.SkipWithout(t, "statmount", err)
		}
		require.NoError(t, err)
		return id
	}
	seen := map[uint64]bool{}
	for range 10 {
		require.Zero(t, at(t.Context()))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target}))
		id := at(t.Context())
		require.NotZero(t, id)
		require.False(t, seen[id])
		require.Equal(t, id, at(context.Background()))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Target: target, Options: []string{"ro"}, Remount: true}))
		require.Equal(t, id, at(t.Context()), "it is the same mount")
		seen[id] = true
		require.NoError(t, m.Unmount(t.Context(), target))
	}
	_, err = m.MountID(t.Context(), filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = m.MountID(t.Context(), "relative")
	input := (*mount.InputError)(nil)
	require.ErrorAs(t, err, &input)
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = m.MountID(over, target)
	require.ErrorContains(t, err, "enough")
}
