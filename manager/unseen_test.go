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

// A blindKernel cannot say what is mounted at a path, and counts how often it is asked.
type blindKernel struct {
	*mounttest.Fake
	mu    sync.Mutex
	path  string
	asked map[string]int
}

func (b *blindKernel) MountID(ctx context.Context, path string) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[path]++
	if path == b.path {
		return 0, errors.New("a parent is no directory")
	}
	return b.Fake.MountID(ctx, path)
}

// blind makes it so for one path, and counts anew.
func (b *blindKernel) blind(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.path, b.asked = path, map[string]int{}
}

// questions are those about a path, and those about others.
func (b *blindKernel) questions(path string) (about, others int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other, n := range b.asked {
		if other != path {
			others += n
		}
	}
	return b.asked[path], others
}

// What cannot be looked at is looked at again with growing pauses, and nothing else with
// it; what has vanished is noticed all the same.
func TestCannotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.config.Resync = -1
		kernel := &blindKernel{Fake: n.kernel, asked: map[string]int{}}
		n.config.Mounter = kernel
		n.claim("a")
		var pods []*v1.Pod
		for _, uid := range []types.UID{"1", "2", "3", "4"} {
			pods = append(pods, podWith(uid, "a"))
		}
		_, stop := n.runUp(pods...)
		defer stop()
		time.Sleep(time.Minute)
		blind := n.table("/1/")[0].Mountpoint
		kernel.blind(blind)
		n.unmount("2")
		time.Sleep(time.Minute)
		require.Len(t, n.table("/2/"), 1, "it has vanished, and is mounted again")

		_, others := kernel.questions(blind)
		time.Sleep(time.Hour)
		about, more := kernel.questions(blind)
		require.Equal(t, others, more, "nothing has happened to them")
		require.Less(t, about, 80)
		n.unmount("1")
		time.Sleep(time.Second)
		kernel.blind("")
		time.Sleep(time.Minute + time.Second)
		require.Len(t, n.table("/1/"), 1)
	})
}
