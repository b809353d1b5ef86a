package recycler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A PodClient is the part of the Kubernetes API that [Pod] uses. Its methods are safe for
// concurrent use, read from the API server rather than from a cache, and return soon after
// ctx ends. They return the server's errors unchanged, so that
// k8s.io/apimachinery/pkg/api/errors recognises them. An adapter over client-go has fewer
// than a hundred lines; it is in controllers/examples/clientgo. A client in memory is in
// recyclertest.
type PodClient interface {
	// Create creates the pod and returns the created pod. It does not change its argument.
	Create(ctx context.Context, pod *v1.Pod) (*v1.Pod, error)
	Get(ctx context.Context, namespace, name string) (*v1.Pod, error)
	// Delete deletes the pod if it has this UID, which the server checks
	// (metav1.Preconditions). If the pod has another UID the error is a conflict.
	Delete(ctx context.Context, namespace, name string, uid types.UID) error
	// List returns all pods of a namespace that have all of the labels.
	List(ctx context.Context, namespace string, labels map[string]string) ([]v1.Pod, error)
	// Watch reports changes of a pod and events about it until ctx ends or Stop is
	// called. Changes from before the watch may be reported or not.
	Watch(ctx context.Context, pod *v1.Pod) (PodWatch, error)
}

// A PodWatch reports updates of one pod. It is used by one goroutine.
type PodWatch interface {
	// Next waits for the next update. After an error other than ctx's the watch is not
	// used any more: closed, expired and broken watches are treated alike.
	Next(ctx context.Context) (PodUpdate, error)
	// Stop ends the watch. It is called once.
	Stop()
}

// A PodUpdate is a change of a pod, or an event about the pod.
type PodUpdate struct {
	Pod     *v1.Pod // its current state, or its last one if it is deleted
	Deleted bool    // the pod has been deleted
	Event   *v1.Event
}
