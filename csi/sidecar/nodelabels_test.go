package sidecar

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volumekit/volumekit/controllers/api"
)

// watchedNodes is a client whose watch a test feeds.
type watchedNodes struct {
	api.Nodes
	events *watch.FakeWatcher
}

func (n watchedNodes) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return n.events, nil
}

// TestLabelWatch: the events of a watch have the labels of nodes alone, and a watch that is stopped leaves no goroutine,
// also with an event that was not received.
func TestLabelWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := watch.NewFakeWithChanSize(2, false)
		w, err := nodeLabels{watchedNodes{events: events}}.Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		node := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"zone": "north"}, Annotations: map[string]string{"large": "text"}},
			Spec:       v1.NodeSpec{ProviderID: "machine"},
		}
		events.Add(node)
		require.Equal(t, watch.Event{Type: watch.Added, Object: &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"zone": "north"}},
		}}, <-w.ResultChan())
		events.Modify(node)
		synctest.Wait()
		w.Stop()
		w.Stop()
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		events := watch.NewFake()
		w, err := nodeLabels{watchedNodes{events: events}}.Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		events.Stop()
		_, isOpen := <-w.ResultChan()
		require.False(t, isOpen, "a watch that the API server ends")
	})
}
