package api_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// run runs a cache until the test's context ends, and returns a function that ends it before.
func run(t *testing.T, c *api.Cache[*v1.PersistentVolumeClaim]) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, c.Run(ctx)) })
	require.NoError(t, c.WaitForSync(ctx))
	return func() { cancel(); running.Wait() }
}

// changes subscribes to a cache and returns the changes so far as short texts.
func changes(t *testing.T, c *api.Cache[*v1.PersistentVolumeClaim]) (take func() []string, stop func()) {
	var mu sync.Mutex
	var texts []string
	_, stop, err := c.Subscribe(func(change api.Change[*v1.PersistentVolumeClaim]) {
		mu.Lock()
		defer mu.Unlock()
		texts = append(texts, describe(change))
	})
	require.NoError(t, err)
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		taken := texts
		texts = nil
		return taken
	}, stop
}

func describe(change api.Change[*v1.PersistentVolumeClaim]) string {
	text := map[bool]string{true: "replay ", false: "news "}[change.Replay]
	for _, state := range []*v1.PersistentVolumeClaim{change.Old, change.New} {
		if state == nil {
			text += "-"
		} else {
			text += state.Spec.VolumeName
		}
	}
	return text
}

func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		stored := s.put(claim("a"))
		c := api.NewCache(s.claimsOf(""), api.CacheConfig{Resync: time.Hour})
		take, stop := changes(t, c)
		end := run(t, c)
		defer end()
		require.Equal(t, []string{"replay -a"}, take(), "the first list")
		s.put(withVolume(stored, "b"))
		require.Equal(t, []string{"news ab"}, take())
		s.cut()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"replay bb"}, take(), "a new list without a change")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"replay bb"}, take(), "a resync")
		s.remove(key.Namespace, key.Name)
		require.Equal(t, []string{"news b-"}, take())
		s.put(claim("c"))
		require.Equal(t, []string{"news -c"}, take())
		s.mu.Lock() // deleted and created again while no watch runs
		s.held = true
		s.drop(key)
		s.store(claim("d"))
		s.mu.Unlock()
		s.cut()
		s.release()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"news cd"}, take())
		stop()
		s.remove(key.Namespace, key.Name)
		require.Empty(t, take())
	})
}

// TestIdleCache: an idle cache calls the API server only to renew its watch.
func TestIdleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(claim("a"))
		c := api.NewCache(s.claimsOf(""), api.CacheConfig{})
		take, _ := changes(t, c)
		end := run(t, c)
		require.Equal(t, []string{"replay -a"}, take())
		require.Equal(t, []string{"list", "watch"}, s.takeCalls())
		time.Sleep(48 * time.Hour)
		require.Empty(t, s.takeCalls())
		require.Empty(t, take(), "no resync")
		end()
	})
}

type listFirst struct{ *cache.ListWatch }

func (listFirst) IsWatchListSemanticsUnSupported() bool { return true }

// TestSharedInformer: a cache over an informer of the embedder, which goes on for others.
func TestSharedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		stored := s.put(claim("a"))
		informer := sharedInformer(t, s)
		c := api.CacheOf[*v1.PersistentVolumeClaim](informer, nil)
		require.NoError(t, c.AddIndex("x", func(*v1.PersistentVolumeClaim) []string { return []string{"1"} }))
		ended := make(chan struct{})
		go func() { defer close(ended); informer.Run(t.Context().Done()) }()
		take, stop := changes(t, c)
		end := run(t, c)
		require.Equal(t, []string{"replay -a"}, take())
		found, err := c.ByIndex("x", "1")
		require.NoError(t, err)
		require.Len(t, found, 1)
		stop()
		end()

		s.put(withVolume(stored, "b"))
		synctest.Wait()
		got, ok := c.Get(key)
		require.True(t, ok)
		require.Equal(t, "b", got.Spec.VolumeName, "the informer still runs")
		require.False(t, informer.IsStopped())
	})
}

// TestSharedInformerOfAnotherType: such an informer would make a cache that is empty although it
// has synced, so that a controller would find none of its objects.
func TestSharedInformerOfAnotherType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		informer := sharedInformer(t, s)
		c := api.CacheOf[*v1.PersistentVolume](informer, nil)
		go informer.Run(t.Context().Done())
		require.NoError(t, c.WaitForSync(t.Context()))
		require.True(t, c.HasSynced(), "an informer without objects shows no type")

		s.put(claim("a"))
		synctest.Wait()
		const want = "api: cache of *v1.PersistentVolume: the informer holds objects of type *v1.PersistentVolumeClaim"
		require.False(t, c.HasSynced())
		require.EqualError(t, c.WaitForSync(t.Context()), want)
		require.EqualError(t, c.Run(t.Context()), want)
	})
}

// sharedInformer returns an informer of claims as an embedder has it.
func sharedInformer(t *testing.T, s *server) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(listFirst{&cache.ListWatch{
		ListFunc: func(o metav1.ListOptions) (runtime.Object, error) { return s.claimsOf("").List(t.Context(), o) },
		WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) {
			return s.claimsOf("").Watch(t.Context(), o)
		},
	}}, &v1.PersistentVolumeClaim{}, time.Hour, cache.Indexers{})
}

// TestPanicsAreLogged: neither an index nor a subscriber that panics on an object stops a cache.
func TestPanicsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(claim("a"))
		var log bytes.Buffer
		c := api.NewCache(s.claimsOf(""), api.CacheConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, c.AddIndex("x", func(*v1.PersistentVolumeClaim) []string { panic("index fails") }))
		_, _, err := c.Subscribe(func(api.Change[*v1.PersistentVolumeClaim]) { panic("subscriber fails") })
		require.NoError(t, err)
		end := run(t, c)
		synctest.Wait()
		require.Len(t, c.List(), 1)
		end()
		require.Contains(t, log.String(), "index fails")
		require.Contains(t, log.String(), "subscriber fails")
	})
}

func TestManagedFieldsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		managed := claim("a")
		managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
		s.put(managed)
		c := api.NewCache(s.claimsOf(""), api.CacheConfig{})
		end := run(t, c)
		got, ok := c.Get(key)
		require.True(t, ok)
		require.Nil(t, got.ManagedFields)
		end()
		require.Error(t, c.Run(t.Context()), "a cache runs once")
	})
}

func TestWaitForSyncEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := api.NewCache(newServer().claimsOf(""), api.CacheConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.WaitForSync(ctx), context.DeadlineExceeded)
	})
}

// TestWaitWithoutServer: a cache waits for an API server that is unavailable without a timer of its own.
func TestWaitWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{})
		end := server.StartOutage("")
		c := api.NewCache(server.Connect("program").PersistentVolumeClaims(""), api.CacheConfig{})
		queries := api.CountSyncQueries(c)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- c.Run(ctx) }()
		synced := make(chan error, 1)
		go func() { synced <- c.WaitForSync(ctx) }()
		gone, cancelWait := context.WithTimeout(ctx, time.Minute)
		defer cancelWait()
		require.ErrorIs(t, c.WaitForSync(gone), context.DeadlineExceeded)
		time.Sleep(24 * time.Hour)
		require.LessOrEqual(t, queries.Load(), int64(2), "one for each call")
		end()
		require.NoError(t, <-synced)
		require.NoError(t, c.WaitForSync(gone), "has synced")
		cancel()
		require.NoError(t, <-ended)
	})
}
