package manager_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// A frailWatcher has a watch that fails some times.
type frailWatcher struct {
	*mounttest.Fake
	err   error
	times int64
	calls atomic.Int64
}

func (w *frailWatcher) Watch(ctx context.Context, changed func()) error {
	if w.calls.Add(1) <= w.times {
		return w.err
	}
	return w.Fake.Watch(ctx, changed)
}

// unmount takes away what is mounted for the pod behind the manager's back.
func (n *node) unmount(pod string) {
	n.Helper()
	for _, mounted := range n.table("/" + pod + "/") {
		require.NoError(n, n.kernel.Unmount(n.Context(), mounted.Mountpoint))
	}
}

// A watch of the mount table that fails is begun again, and what has vanished meanwhile is
// found then.
func TestWatchFails(t *testing.T) {
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
				n := newNode(t, own)
				n.config.Resync = -1
				w := &frailWatcher{Fake: n.kernel, err: test.err, times: 7}
				n.config.Mounter = w
				n.claim("a")
				_, stop := n.runUp(podWith("1", "a"))
				defer stop()
				n.unmount("1")
				time.Sleep(10 * time.Minute) // 1 s, 2 s, ... 32 s, and then one minute each time
				require.Equal(t, test.repaired, len(n.table("/1/")) == 1)
				require.Equal(t, test.calls, w.calls.Load())
			})
		})
	}
}

var _ mount.Watcher = (*frailWatcher)(nil)
