package mount_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestAnchorDuringRemount: a bind mount from a crowded mount has the flags that its
// request names, also while another mounter changes the flags of the crowded mount. After
// the last change, the other flags equal the current flags of the crowded mount, not those
// from the creation of its anchor.
func TestAnchorDuringRemount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	if mount.New(mount.Config{}).Tier() < mount.TierTreeAttr {
		mounttest.SkipWithout(t, "mountevents", "no anchors on this kernel")
	}
	m, dir := newCrowdedMount(t)
	other := mount.New(mount.Config{})
	random := rand.New(rand.NewPCG(1, 2))
	remount := func(option string) {
		require.NoError(t, other.Mount(t.Context(), mount.Request{Target: dir + "/fs", Options: []string{option}, Remount: true}))
	}
	readOnly := func(options ...string) bool {
		req := mount.Request{Source: dir + "/fs/a/source", Target: dir + "/target", Options: options}
		require.NoError(t, m.Mount(t.Context(), req))
		var stat unix.Statfs_t
		require.NoError(t, unix.Statfs(req.Target, &stat))
		require.NoError(t, m.Unmount(t.Context(), req.Target))
		return stat.Flags&unix.ST_RDONLY != 0
	}
	for range 40 {
		var stop atomic.Bool
		var remounting sync.WaitGroup
		remounting.Go(func() {
			for !stop.Load() {
				remount("ro")
				remount("rw")
			}
		})
		for range 2 + random.IntN(4) {
			switch random.IntN(3) {
			case 0:
				require.True(t, readOnly("ro"))
			case 1:
				require.False(t, readOnly("rw"))
			case 2:
				readOnly()
			}
		}
		stop.Store(true)
		remounting.Wait()
		remount("rw") // the loop may have ended before its first remount
		require.False(t, readOnly(), "the mount is writable now")
		remount("ro")
		require.True(t, readOnly(), "the mount is read-only now")
	}
}
