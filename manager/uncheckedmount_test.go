package manager_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A failingKernel returns an error for the mount at one path, and counts the queries of each path.
type failingKernel struct {
	*mounttest.Fake
	mu      sync.Mutex
	path    string
	queries map[string]int
}

func (b *failingKernel) MountID(ctx context.Context, path string) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queries[path]++
	if path == b.path {
		return 0, errors.New("a parent is no directory")
	}
	return b.Fake.MountID(ctx, path)
}

// setFailingPath makes queries of one path fail, and resets the counts.
func (b *failingKernel) setFailingPath(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.path, b.queries = path, map[string]int{}
}

// countQueries returns the numbers of queries of the path and of all other paths.
func (b *failingKernel) countQueries(path string) (about, others int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other, n := range b.queries {
		if other != path {
			others += n
		}
	}
	return b.queries[path], others
}

// TestFailedMountCheckBacksOff: a mount whose check fails is checked again with growing pauses, while no
// other mount is. A vanished mount is detected meanwhile.
func TestFailedMountCheckBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Resync = -1
		kernel := &failingKernel{Fake: n.kernel, queries: map[string]int{}}
		n.config.Mounter = kernel
		n.claim("a")
		var pods []*v1.Pod
		for _, uid := range []types.UID{"1", "2", "3", "4"} {
			pods = append(pods, podWith(uid, "a"))
		}
		_, stop := n.runUp(pods...)
		defer stop()
		time.Sleep(time.Minute)
		blind := n.mountsBelow("/1/")[0].Mountpoint
		kernel.setFailingPath(blind)
		n.unmountVolumeOf("2")
		time.Sleep(time.Minute)
		require.Len(t, n.mountsBelow("/2/"), 1, "it has vanished, and is mounted again")

		_, others := kernel.countQueries(blind)
		time.Sleep(time.Hour)
		about, more := kernel.countQueries(blind)
		require.Equal(t, others, more, "nothing has happened to them")
		require.Less(t, about, 80)
		n.unmountVolumeOf("1")
		time.Sleep(time.Second)
		kernel.setFailingPath("")
		time.Sleep(time.Minute + time.Second)
		require.Len(t, n.mountsBelow("/1/"), 1)
	})
}
