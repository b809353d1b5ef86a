package manager_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// Somebody unmounts a volume and mounts something else in its place: that stays, and is
// told of; when it has gone the volume is mounted again.
func TestReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		time.Sleep(time.Minute)
		ours := n.table("/1/")[0]
		n.replace(ours.Mountpoint, mount.Request{Source: "theirs", FSType: "tmpfs"})
		time.Sleep(10 * time.Second)
		reasons := n.reasons() // it may have looked in between
		require.True(t, slices.Contains(reasons, manager.VolumeReplaced) || slices.Contains(reasons, manager.VolumeVanished), reasons)
		require.Contains(t, reasons, manager.FailedMount)
		require.Equal(t, "failed", m.State().Volumes[0].Pods[0].Phase())
		require.Equal(t, "theirs", n.table("/1/")[0].Source)
		require.NoError(t, n.kernel.Unmount(t.Context(), ours.Mountpoint))
		time.Sleep(2 * time.Second) // however long the pause before the next try is
		require.NoError(t, m.WaitForAttachAndMount(ended(t), pod))
		require.Equal(t, ours.Root, n.table("/1/")[0].Root)

		// The same mounted anew, by somebody who knows how: nothing to repair.
		n.replace(ours.Mountpoint, mount.Request{Source: ours.Root})
		time.Sleep(10 * time.Second)
		n.up(m, pod)
		n.source.RemovePod("1")
		n.down(m, pod)
		require.Empty(t, n.table("/1/"))
		stop()
	})
}

// replace unmounts what is there and mounts something else. The manager may be quick
// enough to repair it in between.
func (n *node) replace(at string, by mount.Request) {
	n.Helper()
	by.Target = at
	for {
		require.NoError(n, n.kernel.Unmount(n.Context(), at))
		err := n.kernel.Mount(n.Context(), by)
		if !errors.Is(err, mount.ErrMounted) {
			require.NoError(n, err)
			return
		}
	}
}

// A hangingKernel does not say what is mounted at a path.
type hangingKernel struct {
	*mounttest.Fake
	mu   sync.Mutex
	path string
}

func (h *hangingKernel) hang(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.path = path
}

func (h *hangingKernel) MountID(ctx context.Context, path string) (uint64, error) {
	h.mu.Lock()
	hangs := path == h.path
	h.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	return h.Fake.MountID(ctx, path)
}

// A path that hangs while it is looked for what has vanished holds nobody up.
func TestLookingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		n.claim("b")
		kernel := &hangingKernel{Fake: n.kernel}
		n.config.Mounter = kernel
		first, second := podWith("1", "a"), podWith("2", "b")
		m, stop := n.runUp(first)
		time.Sleep(time.Minute)
		kernel.hang(n.table("/1/")[0].Mountpoint)
		require.NoError(t, n.kernel.Mount(t.Context(), mount.Request{Source: "any", Target: n.dir + "/disk-b", FSType: "tmpfs"}))
		require.NoError(t, n.kernel.Unmount(t.Context(), n.dir+"/disk-b"))
		time.Sleep(500 * time.Millisecond)
		begin := time.Now()
		n.source.SetPod(second)
		n.up(m, second)
		require.Less(t, time.Since(begin), time.Second, "of a clock that is not the machine's")
		require.NoError(t, n.kernel.Unmount(t.Context(), n.table("/2/")[0].Mountpoint))
		time.Sleep(10 * time.Second)
		require.Len(t, n.table("/2/"), 1)
		require.Contains(t, n.reasons(), manager.VolumeVanished)
		stop()
	})
}
