package bind

import (
	"context"
	"io"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/recycler"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// A PodCluster has the clients of [PodClient]. An [api.Cluster] is one.
type PodCluster interface {
	api.PodsGetter
	api.EventsGetter
}

// PodClient returns the client with which package recycler runs its pods on a cluster, for plugins that recycle by
// pods. It requires these rights in the namespace of the pods: create, get, list, watch and delete of pods, and watch
// of events. Its errors are those of the API server.
func PodClient(cluster PodCluster) recycler.PodClient { return podClient{cluster} }

type podClient struct{ cluster PodCluster }

func (c podClient) Create(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	return c.cluster.Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

func (c podClient) Get(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return c.cluster.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (c podClient) Delete(ctx context.Context, namespace, name string, uid types.UID) error {
	return c.cluster.Pods(namespace).Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(uid)))
}

func (c podClient) List(ctx context.Context, namespace string, with map[string]string) ([]v1.Pod, error) {
	list, err := c.cluster.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set(with).String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (c podClient) Watch(ctx context.Context, pod *v1.Pod) (recycler.PodWatch, error) {
	pods, err := c.cluster.Pods(pod.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name})
	if err != nil {
		return nil, err
	}
	events, err := c.cluster.Events(pod.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
	if err != nil {
		pods.Stop()
		return nil, err
	}
	return podWatch{pods, events}, nil
}

// A podWatch reports the changes of a pod and the events about it.
type podWatch struct{ pods, events watch.Interface }

func (w podWatch) Stop() {
	w.pods.Stop()
	w.events.Stop()
}

func (w podWatch) Next(ctx context.Context) (recycler.PodUpdate, error) {
	select {
	case change, isOpen := <-w.pods.ResultChan():
		return updateOf(change, isOpen)
	case change, isOpen := <-w.events.ResultChan():
		return updateOf(change, isOpen)
	case <-ctx.Done():
		return recycler.PodUpdate{}, ctx.Err()
	}
}

func updateOf(change watch.Event, isOpen bool) (recycler.PodUpdate, error) {
	if !isOpen {
		return recycler.PodUpdate{}, io.EOF
	}
	switch object := change.Object.(type) {
	case *v1.Pod:
		return recycler.PodUpdate{Pod: object, Deleted: change.Type == watch.Deleted}, nil
	case *v1.Event:
		return recycler.PodUpdate{Event: object}, nil
	}
	return recycler.PodUpdate{}, apierrors.FromObject(change.Object)
}
