package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// long reports whether the tests that take their time are to take it.
func long() bool { return os.Getenv("VOLUMEKIT_LONG") != "" }

// TestStress sets up and tears down the same and different volumes from many
// goroutines, on every tier, some with contexts that end at any moment.
func TestStress(t *testing.T) {
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			if mounttest.Namespace(t) {
				testStress(t, tier)
			}
		})
	}
}

func testStress(t *testing.T, tier mount.Tier) {
	duration := time.Second
	if long() {
		duration = 30 * time.Second
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := killNode(t, dir, tier)
	require.NoError(t, os.WriteFile(n.disks+"/disk/precious", nil, 0o600))
	check := mounttest.NoLeaks(t)

	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var ups, downs, ended atomic.Int64
	var workers sync.WaitGroup
	for i := range 32 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		workers.Go(func() {
			for ctx.Err() == nil {
				uid := types.UID(fmt.Sprint(random.IntN(8)))
				call, cancel := context.WithCancel(t.Context())
				if random.IntN(8) == 0 {
					call, cancel = context.WithTimeout(t.Context(), time.Duration(random.IntN(400))*time.Microsecond)
				}
				err := upOrDown(call, t, n, uid, random.IntN(2) == 0, &ups, &downs)
				if explained := err == nil || call.Err() != nil && errors.Is(err, call.Err()); !explained {
					t.Error(err)
				}
				if call.Err() != nil {
					ended.Add(1)
				}
				cancel()
			}
		})
	}
	workers.Wait()
	t.Logf("%d up, %d down, of these %d with a context that ended", ups.Load(), downs.Load(), ended.Load())

	for i := range 8 {
		u := n.unmounter(t, types.UID(fmt.Sprint(i)))
		require.NoError(t, u.TearDown(t.Context()))
		require.NoError(t, util.RemoveEmptyParents(n.host.Root(), u.GetPath()))
	}
	check()
	require.Empty(t, mountsBelow(t, mount.New(mount.Config{}), dir))
	left, err := os.ReadDir(n.host.Root())
	require.NoError(t, err)
	require.Empty(t, left)
	require.FileExists(t, n.disks+"/disk/precious")
}

func upOrDown(ctx context.Context, t *testing.T, n *node, uid types.UID, up bool, ups, downs *atomic.Int64) error {
	if up {
		ups.Add(1)
		return n.mounter(t, spec(n.disks+"/disk", "ro"), uid).SetUp(ctx, volume.MounterArgs{})
	}
	downs.Add(1)
	return n.unmounter(t, uid).TearDown(ctx)
}

// TestNeverWritable watches the target of a read-only volume, while it is set up
// and torn down, for a mount that is not read-only.
func TestNeverWritable(t *testing.T) {
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			if mounttest.Namespace(t) {
				testNeverWritable(t, tier)
			}
		})
	}
}

func testNeverWritable(t *testing.T, tier mount.Tier) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := killNode(t, dir, tier)
	mounter, unmounter := n.mounter(t, spec(n.disks+"/disk", "ro"), "1"), n.unmounter(t, "1")
	// A write that lands on the disk went through a mount that was not read-only;
	// one that lands in the directory below it did no harm.
	stop := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(mounter.GetPath()+"/written", nil, 0o600)
				_ = os.Remove(mounter.GetPath() + "/written")
			}
			if _, err := os.Lstat(n.disks + "/disk/written"); err == nil {
				t.Error("a write went through a read-only volume")
				return
			}
		}
	})
	for range 300 {
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
		require.Eventually(t, func() bool { return unmounter.TearDown(t.Context()) == nil },
			10*time.Second, time.Microsecond, "the watcher's file is in the way only for a moment")
	}
	close(stop)
	watcher.Wait()
}
