package sidecar

import (
	"context"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// nodeLabels reads nodes without their specifications and their states, which are most of their memory and
// which no topology depends on.
type nodeLabels struct{ nodes api.Nodes }

// IsWatchListSemanticsUnSupported returns the answer of the reader of the whole nodes, see [api.Reader].
func (r nodeLabels) IsWatchListSemanticsUnSupported() bool {
	reader, ok := r.nodes.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && reader.IsWatchListSemanticsUnSupported()
}

func (r nodeLabels) Get(ctx context.Context, name string, options metav1.GetOptions) (*v1.Node, error) {
	node, err := r.nodes.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return labelsOf(node), nil
}

func (r nodeLabels) List(ctx context.Context, options metav1.ListOptions) (*v1.NodeList, error) {
	list, err := r.nodes.List(ctx, options)
	if err != nil {
		return nil, err
	}
	bare := &v1.NodeList{TypeMeta: list.TypeMeta, ListMeta: list.ListMeta, Items: make([]v1.Node, len(list.Items))}
	for i := range list.Items {
		bare.Items[i] = *labelsOf(&list.Items[i])
	}
	return bare, nil
}

func (r nodeLabels) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	whole, err := r.nodes.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	w := &labelWatch{whole: whole, events: make(chan watch.Event), stopped: make(chan struct{})}
	go w.forward()
	return w, nil
}

// A labelWatch passes the events of a watch on, with only the labels of the nodes. The goroutine of watch.Filter never
// ends if Stop comes while an event is not received.
type labelWatch struct {
	whole   watch.Interface
	events  chan watch.Event
	once    sync.Once
	stopped chan struct{}
}

func (w *labelWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *labelWatch) Stop() {
	w.once.Do(func() {
		close(w.stopped)
		w.whole.Stop()
	})
}

// forward passes the events on until the watch ends.
func (w *labelWatch) forward() {
	defer close(w.events)
	for event := range w.whole.ResultChan() {
		if node, ok := event.Object.(*v1.Node); ok {
			event.Object = labelsOf(node)
		}
		select {
		case w.events <- event:
		case <-w.stopped:
			return
		}
	}
}

// labelsOf returns the identity and the labels of a node. A bookmark has annotations.
func labelsOf(node *v1.Node) *v1.Node {
	return &v1.Node{TypeMeta: node.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels, Annotations: bookmarkOf(node),
	}}
}

// bookmarkOf returns the annotation that ends the first objects of a watch.
func bookmarkOf(node *v1.Node) map[string]string {
	if value, ok := node.Annotations[metav1.InitialEventsAnnotationKey]; ok {
		return map[string]string{metav1.InitialEventsAnnotationKey: value}
	}
	return nil
}
