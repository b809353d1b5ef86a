package api_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A controller writes a claim, and reads its own write before the watch has delivered it.
func ExampleObjects() {
	cluster := newServer() // in a program: kubeclient.New(clientset), and cluster.PersistentVolumeClaims
	cluster.put(claim("volume-1"))

	cache := api.NewCache(cluster.claimsOf(""), api.CacheConfig{})
	claims := api.NewObjects(cluster.claimsOf, cache)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = cache.Run(ctx) })
	running.Go(func() { _ = claims.Run(ctx) })
	if err := cache.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}

	cluster.hold() // the watch is late
	seen, _ := claims.Get(ctx, api.Key{Namespace: "ns", Name: "claim"})
	changed := seen.DeepCopy()
	changed.Spec.VolumeName = "volume-2"
	_, err := claims.Update(ctx, changed)
	fmt.Println("update:", err)

	key := api.KeyOf(changed)
	cached, _ := cache.Get(key)
	fmt.Println("the cache has", cached.Spec.VolumeName)
	seen, _ = claims.Get(ctx, key)
	fmt.Println("the controller sees", seen.Spec.VolumeName)
	err = claims.Delete(ctx, seen, metav1.DeleteOptions{})
	seen, _ = claims.Get(ctx, key)
	fmt.Println("delete:", err, "- being deleted:", seen.DeletionTimestamp != nil)

	cancel()
	running.Wait()
	// Output:
	// update: <nil>
	// the cache has volume-1
	// the controller sees volume-2
	// delete: <nil> - being deleted: true
}

// Subscribers receive the first list as replays, and changes as news.
func ExampleCache_Subscribe() {
	cluster := newServer()
	cluster.put(claim("volume-1"))
	cache := api.NewCache(cluster.claimsOf(""), api.CacheConfig{})
	received := make(chan api.Change[*v1.PersistentVolumeClaim])
	_, _, err := cache.Subscribe(func(change api.Change[*v1.PersistentVolumeClaim]) { received <- change })
	if err != nil {
		fmt.Println(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- cache.Run(ctx) }()

	change := <-received
	fmt.Println(change.Key(), "replay:", change.Replay)
	cluster.put(withVolume(change.New, "volume-2"))
	change = <-received
	fmt.Println(change.Old.Spec.VolumeName, "->", change.New.Spec.VolumeName, "replay:", change.Replay)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// ns/claim replay: true
	// volume-1 -> volume-2 replay: false
	// <nil>
}
