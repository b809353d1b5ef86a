package node_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFirstListIsConsistent: a pod that the last run of the program has seen is present after a
// restart, also if the API server answers from a cache that is behind.
func TestFirstListIsConsistent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.NewServer(apitest.Config{})
		defer s.StaleLists("agent")()
		web := pod("web")
		web.Namespace, web.UID, web.Spec.Containers[0].Image = "default", "", "image"
		web, err := s.Direct().Pods("default").Create(t.Context(), web, metav1.CreateOptions{})
		require.NoError(t, err)

		w := &world{T: t, running: map[types.UID]bool{}, config: node.Config{Cluster: s.Connect("agent"), Node: "node-1"}}
		// No event brings the pod later.
		defer s.HoldEvents("agent")()
		w.start()
		defer w.stop()
		_, err = w.Pod(t.Context(), web.UID)
		require.NoError(t, err)
	})
}

// TestFirstListIsAwaited: the source has all pods of the first list at once, also if the source is
// slow to apply the list.
func TestFirstListIsAwaited(t *testing.T) {
	w := newWorld(t)
	const number = 20
	var want []string
	for i := range number {
		name := fmt.Sprintf("pod-%02d", i)
		w.put(inPhase(pod(name), v1.PodSucceeded))
		want = append(want, name+" Running")
	}
	w.config.HasContainers = func(types.UID) bool {
		time.Sleep(5 * time.Millisecond) // other goroutines proceed meanwhile
		return true
	}
	var err error
	w.Source, err = node.NewSource(w.config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w.cancelThis = cancel
	defer w.stop()
	w.ended.Go(func() { assert.NoError(t, w.Source.Run(ctx)) })
	pods, err := w.Pods(t.Context())
	require.NoError(t, err)
	var got []string
	for _, pod := range pods {
		got = append(got, fmt.Sprint(pod.Name, " ", pod.Status.Phase))
	}
	require.Equal(t, want, got)
}

// TestContainersStartDuringDeletion: a pod that Pod returns after HasContainers has begun to return
// true is present after its deletion, also if the two happen at the same time.
func TestContainersStartDuringDeletion(t *testing.T) {
	w := newWorld(t)
	found := make(chan error, 1)
	w.config.HasContainers = func(uid types.UID) bool {
		if has := w.hasContainers(uid); has || uid != w.uid("a") {
			return has
		}
		// The containers of the pod start after the source has received this result.
		go func() {
			w.news.Lock()
			w.running["a"] = true
			w.news.Unlock()
			_, err := w.Pod(t.Context(), w.uid("a"))
			found <- err
		}()
		select {
		case err := <-found:
			found <- err
		case <-time.After(50 * time.Millisecond): // Pod waits for the end of the change
		}
		return false
	}
	w.put(pod("a"))
	var err error
	w.Source, err = node.NewSource(w.config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer w.ended.Wait()
	defer cancel()
	w.ended.Go(func() { _ = w.Source.Run(ctx) })
	_, err = w.Pod(t.Context(), w.uid("a"))
	require.NoError(t, err)
	w.remove(pod("a"))
	err = <-found
	w.ContainersEnded("unknown") // waits for the end of the change
	if err == nil {              // the containers run
		_, err = w.Pod(t.Context(), w.uid("a"))
		require.NoError(t, err, "the volumes of running containers are torn down")
		return
	}
	require.True(t, volume.IsNotFound(err), err)
}

// TestRunWithEndedContext: Run returns nil for a context that ends before the cache of pods runs. Many
// sources run at the same time, so that some are interrupted between their steps.
func TestRunWithEndedContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	server := apitest.NewServer(apitest.Config{}).Connect("agent")
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			for range 20 {
				source, err := node.NewSource(node.Config{Cluster: server, Node: "node-1"})
				assert.NoError(t, err)
				assert.NoError(t, source.Run(ended))
			}
		})
	}
	all.Wait()
}
