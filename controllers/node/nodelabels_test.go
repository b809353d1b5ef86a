package node_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFollowLabels: a follower receives the labels of the node once it exists, and after a change. The node is
// watched until the end of the follower.
func TestFollowLabels(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		ended, labels := make(chan error, 1), []string{}
		go func() {
			ended <- w.FollowLabels(ctx, func(now map[string]string) { labels = append(labels, now["zone"]) })
		}()
		synctest.Wait()
		require.Empty(w, labels)
		require.Equal(w, []string{"nodes node-1", "pods spec.nodeName=node-1"}, w.watched())
		own := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		w.put(own)
		synctest.Wait()
		require.Equal(w, []string{""}, slices.Compact(labels))
		own.Labels = map[string]string{"zone": "north"}
		w.put(own)
		synctest.Wait()
		require.Equal(w, []string{"", "north"}, slices.Compact(labels))
		require.NoError(w, w.server.Direct().Nodes().Delete(w.Context(), own.Name, metav1.DeleteOptions{}))
		synctest.Wait()
		require.Equal(w, []string{"", "north"}, slices.Compact(labels), "a missing node has no labels")
		cancel()
		require.NoError(w, <-ended)
		synctest.Wait()
		require.Equal(w, []string{"pods spec.nodeName=node-1"}, w.watched())
	})
}
