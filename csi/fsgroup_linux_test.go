package csi

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestUnchangeableGroup: a volume that is read-only as a whole keeps its owners, and the embedder
// decides about single files that do.
func TestUnchangeableGroup(t *testing.T) {
	testbed.Disk{FSType: "ext4", Size: 64 << 20, Options: []string{"-q"}}.Run(t, func(t *testing.T, dir string) {
		group := int64(7)
		args := volume.MounterArgs{FsGroup: &group}
		testbed.Fill(t, dir, "immutable")
		testbed.Protect(t, dir+"/immutable", testbed.Immutable)
		defer testbed.Protect(t, dir+"/immutable", 0)
		p := &Plugin{}
		require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		require.NoError(t, p.applyGroup(t.Context(), dir, args))
		require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))

		err := p.applyGroup(t.Context(), dir, args)
		require.ErrorIs(t, err, unix.EPERM)
		require.Equal(t, volume.Uncertain, volume.KindOf(err))
		p.config.OnUnchanged = func(_ context.Context, file string, err error) error {
			require.Equal(t, dir+"/immutable", file)
			require.ErrorIs(t, err, unix.EPERM)
			return nil
		}
		require.NoError(t, p.applyGroup(t.Context(), dir, args))
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.ModeDir|os.ModeSetgid|0o775, info.Mode())
	})
}
