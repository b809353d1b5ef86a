package nfs

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// A watchedMounter calls unmounting for each unmount.
type watchedMounter struct {
	mount.Interface
	unmounting func()
}

func (w watchedMounter) Unmount(ctx context.Context, target string) error {
	w.unmounting()
	return w.Interface.Unmount(ctx, target)
}

// TestSweepKeepsUnfinishedExports: an export that is left while others are taken down is
// looked for by the next call.
func TestSweepKeepsUnfinishedExports(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	kernel := &watchedMounter{Interface: mounttest.NewFake(mount.Config{}), unmounting: func() {}}
	mounts := podvolume.NewMounts(host, kernel)
	e := &exports{dir: host.Root() + "/plugins/x/mounts", mounts: mounts, mounter: kernel}
	left := func() {
		require.NoError(t, mounts.SetUp(t.Context(), e.dir+"/left", mount.Request{Source: "nas:/x", FSType: "nfs"}))
	}
	left()
	kernel.unmounting = func() { e.swept.Store(false) }
	e.sweep(t.Context())
	require.False(t, e.swept.Load())
	require.NoDirExists(t, e.dir+"/left")

	left()
	kernel.unmounting = func() {}
	e.sweep(t.Context())
	require.True(t, e.swept.Load())
	require.NoDirExists(t, e.dir+"/left")
}
