package manager_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
)

// countingTable counts readings of the mount table, each of which takes 10 ms.
type countingTable struct {
	*mounttest.Fake
	readings atomic.Int64
}

func (s *countingTable) List(ctx context.Context) ([]mount.Info, error) {
	s.readings.Add(1)
	time.Sleep(10 * time.Millisecond)
	return s.Fake.List(ctx)
}

// TestRestartReadsMountTableOnce: the mount table is read a few times for hundreds of volumes that are
// reconstructed after a restart.
func TestRestartReadsMountTableOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 300
		kernel := &countingTable{Fake: mounttest.NewFake(mount.Config{})}
		dir := t.TempDir()
		before, err := newNodeOn(dir, kernel)
		require.NoError(t, err)
		var pods []*v1.Pod
		for i := range count {
			pods = append(pods, before.pod(i, "shared"))
		}
		stop := before.run(t.Context())
		require.NoError(t, before.up(t.Context(), pods...))
		require.NoError(t, stop())

		after, err := newNodeOn(dir, kernel)
		require.NoError(t, err)
		kernel.readings.Store(0)
		stop = after.run(t.Context())
		require.NoError(t, after.up(t.Context(), pods...))
		require.LessOrEqual(t, kernel.readings.Load(), int64(4))
		require.NoError(t, after.down(t.Context(), pods...))
		require.NoError(t, stop())
	})
}
