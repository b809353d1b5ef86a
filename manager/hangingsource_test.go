package manager_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

type hangingSource struct {
	podsAndClaims
	isHanging atomic.Bool
}

// TestHangingSourceDelaysNoRepair: while the source does not respond, vanished mounts are restored.
func TestHangingSourceDelaysNoRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		source := &hangingSource{podsAndClaims: n.source}
		n.read(source)
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		source.isHanging.Store(true)
		n.source.SetPod(podWith("2", "a"))
		time.Sleep(time.Second)
		require.NoError(t, n.kernel.Unmount(t.Context(), n.mountsBelow("/1/")[0].Mountpoint))
		time.Sleep(time.Second)
		require.Len(t, n.mountsBelow("/1/"), 1, "it is mounted again")
		source.isHanging.Store(false)
		time.Sleep(time.Hour)
		n.up(m, podWith("2", "a"))
		stop()
	})
}

func (s *hangingSource) Pods(ctx context.Context) ([]*v1.Pod, error) {
	if s.isHanging.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return s.podsAndClaims.Pods(ctx)
}
