package caches_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/caches"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func wait(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// TestRun: the work begins when all caches have synced, after prepare, and with the first objects.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := apitest.NewServer(apitest.Config{}).Connect("test")
		_, err := cluster.Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		given := api.NewCache(cluster.Nodes(), api.CacheConfig{})
		set := caches.New("tested", 0, nil)
		nodes := caches.Open(set, given, cluster.Nodes())
		require.Same(t, given, nodes)
		claims := caches.OpenObjects(set, nil, cluster.PersistentVolumeClaims)
		var steps []string
		caches.Follow(set, nodes, func(change api.Change[*v1.Node]) { steps = append(steps, change.New.Name) })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- set.Run(ctx, func() { steps = append(steps, "prepare") }, wait, func(ctx context.Context) error {
				synctest.Wait()
				steps = append(steps, "work")
				return wait(ctx)
			})
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, claims.Cache().HasSynced(), "a cache of the set runs")
		require.False(t, set.Synced(), "one of the embedder waits for it")
		require.Empty(t, steps)
		go func() { _ = given.Run(ctx) }()
		time.Sleep(time.Second) // the wait for a cache looks from time to time
		synctest.Wait()
		require.True(t, set.Synced())
		require.Equal(t, []string{"prepare", "node-1", "work"}, steps)
		stop()
		require.NoError(t, <-ended)
		require.EqualError(t, set.Run(t.Context(), nil), "tested: a controller runs once")
		synctest.Wait()
	})
}

// TestRunFails: the error of a part ends the others, and names the controller.
func TestRunFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := apitest.NewServer(apitest.Config{}).Connect("test")
		set := caches.New("tested", 0, nil)
		caches.Open(set, nil, cluster.Nodes())
		failure := errors.New("worker is lost")
		err := set.Run(t.Context(), nil, wait, func(context.Context) error { return failure })
		require.ErrorIs(t, err, failure)
		require.EqualError(t, err, "tested: worker is lost")
	})
}

// TestRunFollowsNoEndedCache: a cache that has ended before Run is no reason to wait for ever.
func TestRunFollowsNoEndedCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := apitest.NewServer(apitest.Config{}).Connect("test")
		given := api.NewCache(cluster.Nodes(), api.CacheConfig{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- given.Run(ctx) }()
		require.NoError(t, given.WaitForSync(t.Context()))
		stop()
		require.NoError(t, <-ended)
		set := caches.New("tested", 0, nil)
		caches.Follow(set, caches.Open(set, given, cluster.Nodes()), func(api.Change[*v1.Node]) {})
		require.ErrorContains(t, set.Run(t.Context(), nil, wait), "tested: ")
	})
}
