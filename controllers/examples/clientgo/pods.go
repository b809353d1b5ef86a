package clientgo

import (
	"context"
	"io"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volumekit/volumekit/recycler"
)

// Pods is a recycler.PodClient. Its credentials must permit to create, get, delete, list and watch
// pods, and to watch events, in the namespace of the pods. Errors are those of the API server.
type Pods struct{ corev1.CoreV1Interface }

var _ recycler.PodClient = Pods{}

// Create implements recycler.PodClient.
func (p Pods) Create(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	return p.Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// Get implements recycler.PodClient.
func (p Pods) Get(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return p.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Delete implements recycler.PodClient. The UID is a precondition.
func (p Pods) Delete(ctx context.Context, namespace, name string, uid types.UID) error {
	return p.Pods(namespace).Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(uid)))
}

// List implements recycler.PodClient. The request has no limit, so that one response has all pods.
func (p Pods) List(ctx context.Context, namespace string, with map[string]string) ([]v1.Pod, error) {
	list, err := p.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set(with).String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Watch implements recycler.PodClient.
func (p Pods) Watch(ctx context.Context, pod *v1.Pod) (recycler.PodWatch, error) {
	itself := fields.OneTermEqualSelector("metadata.name", pod.Name).String()
	pods, err := p.Pods(pod.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: itself})
	if err != nil {
		return nil, err
	}
	about := fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String()
	events, err := p.Events(pod.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: about})
	if err != nil {
		pods.Stop()
		return nil, err
	}
	return podWatch{pods, events}, nil
}

type podWatch struct{ pods, events watch.Interface }

func (w podWatch) Stop() { w.pods.Stop(); w.events.Stop() }

func (w podWatch) Next(ctx context.Context) (recycler.PodUpdate, error) {
	select {
	case e, open := <-w.pods.ResultChan():
		return update(e, open)
	case e, open := <-w.events.ResultChan():
		return update(e, open)
	case <-ctx.Done():
		return recycler.PodUpdate{}, ctx.Err()
	}
}

func update(e watch.Event, open bool) (recycler.PodUpdate, error) {
	switch object := e.Object.(type) {
	case *v1.Pod:
		return recycler.PodUpdate{Pod: object, Deleted: e.Type == watch.Deleted}, nil
	case *v1.Event:
		return recycler.PodUpdate{Event: object}, nil
	}
	if !open {
		return recycler.PodUpdate{}, io.EOF
	}
	return recycler.PodUpdate{}, apierrors.FromObject(e.Object)
}
