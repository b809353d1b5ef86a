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

// TestAnchorWhileRemounting: what is bound from a crowded mount has the flags that
// are asked for by name, also while the mount's own change; and the others are what
// the mount's are when nobody changes them any more, not what they were once.
func TestAnchorWhileRemounting(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	if mount.New(mount.Config{}).Tier() < mount.TierTreeAttr {
		mounttest.SkipWithout(t, "mountevents", "no anchors on this kernel")
	}
	m, dir := crowded(t)
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
		remount("rw") // if it has not come to it at all
		require.False(t, readOnly(), "the mount is writable now")
		remount("ro")
		require.True(t, readOnly(), "the mount is read-only now")
	}
}
