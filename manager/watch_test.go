package manager_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// A failingWatcher has a watch that fails some times.
type failingWatcher struct {
	*mounttest.Fake
	err   error
	times int64
	calls atomic.Int64
}

func (w *failingWatcher) Watch(ctx context.Context, changed func()) error {
	if w.calls.Add(1) <= w.times {
		return w.err
	}
	return w.Fake.Watch(ctx, changed)
}

// unmountVolumeOf unmounts the volume of the pod behind the manager's back.
func (n *node) unmountVolumeOf(pod string) {
	n.Helper()
	for _, mounted := range n.mountsBelow("/" + pod + "/") {
		require.NoError(n, n.kernel.Unmount(n.Context(), mounted.Mountpoint))
	}
}

// TestFailedWatchIsRestarted: a failed watch of the mount table is restarted, unless watches are
// unsupported. The restart detects mounts that vanished meanwhile.
func TestFailedWatchIsRestarted(t *testing.T) {
	for name, test := range map[string]struct {
		err      error
		calls    int64
		repaired bool
	}{
		"for a while": {errors.New("too many open files"), 8, true},
		"for good":    {errors.ErrUnsupported, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.config.Resync = -1
				w := &failingWatcher{Fake: n.kernel, err: test.err, times: 7}
				n.config.Mounter = w
				n.claim("a")
				_, stop := n.runUp(podWith("1", "a"))
				defer stop()
				n.unmountVolumeOf("1")
				time.Sleep(10 * time.Minute) // 1 s, 2 s, ... 32 s, and then one minute each time
				require.Equal(t, test.repaired, len(n.mountsBelow("/1/")) == 1)
				require.Equal(t, test.calls, w.calls.Load())
			})
		})
	}
}

// TestWatchOfWrappedMounter: the manager hears of changes of the mount table through a mounter that
// wraps another one, from both kinds of watch.
func TestWatchOfWrappedMounter(t *testing.T) {
	for name, wrap := range map[string]func(*mounttest.Fake) mount.Interface{
		"WatchMounts": func(f *mounttest.Fake) mount.Interface { return tableWatcher{f} },
		"Watch":       func(f *mounttest.Fake) mount.Interface { return &failingWatcher{Fake: f} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.config.Resync = -1
				n.config.Mounter = testbed.Wrapped{Interface: wrap(n.kernel)}
				n.claim("a")
				_, stop := n.runUp(podWith("1", "a"))
				defer stop()
				n.unmountVolumeOf("1")
				time.Sleep(time.Minute)
				require.Len(t, n.mountsBelow("/1/"), 1)
			})
		})
	}
}

// A tableWatcher has WatchMounts alone.
type tableWatcher struct{ *mounttest.Fake }

func (tableWatcher) Watch(context.Context, func()) error { return errors.ErrUnsupported }

// WatchMounts is not there.
func (w *failingWatcher) WatchMounts(context.Context, func(mount.TableChange)) error {
	return errors.ErrUnsupported
}

var _ mount.Watcher = (*failingWatcher)(nil)
