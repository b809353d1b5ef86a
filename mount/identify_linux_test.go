package mount_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestMountID: each mount has a unique ID, which no later mount gets and which a remount keeps,
// on the kernel and on the Fake.
func TestMountID(t *testing.T) {
	onKernelAndFake(t, testMountID)
}

// A commonMounter mounter has the abilities that the kernel and the fake have in common.
type commonMounter interface {
	mount.Interface
	mount.Identifier
	mount.Watcher
	mount.TableWatcher
}

// onKernelAndFake runs a test on the fake and on the kernel, with two directories.
func onKernelAndFake(t *testing.T, test func(t *testing.T, m commonMounter, source, target string)) {
	t.Helper()
	run := func(t *testing.T, m commonMounter) {
		dir := testbed.Dir(t)
		testbed.Fill(t, dir, "source/", "target/")
		test(t, m, dir+"/source", dir+"/target")
	}
	t.Run("fake", func(t *testing.T) { run(t, mounttest.NewFake(mount.Config{})) })
	t.Run("real", func(t *testing.T) {
		if mounttest.Namespace(t) {
			run(t, mount.New(mount.Config{}))
		}
	})
}

func testMountID(t *testing.T, m commonMounter, source, target string) {
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
		require.Equal(t, id, at(t.Context()), "a remount keeps the mount")
		seen[id] = true
		require.NoError(t, m.Unmount(t.Context(), target))
	}
	_, err := m.MountID(t.Context(), target+"/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = m.MountID(t.Context(), "relative")
	input := (*mount.InputError)(nil)
	require.ErrorAs(t, err, &input)
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = m.MountID(over, target)
	require.ErrorContains(t, err, "enough")
}
