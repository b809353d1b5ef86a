package recycler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A PodClient is what [Pod] needs of a cluster. Its methods are safe for concurrent
// use, ask the API server rather than a cache, and return soon after ctx ends. What
// the server refused is told as it says it: the errors work with
// k8s.io/apimachinery/pkg/api/errors. An adapter over client-go is below a hundred lines; it
// is in examples/clientgo. A client in memory is in recyclertest.
type PodClient interface {
	// Create creates the pod, which it does not change, and returns it as it is then.
	Create(ctx context.Context, pod *v1.Pod) (*v1.Pod, error)
	Get(ctx context.Context, namespace, name string) (*v1.Pod, error)
	// Delete deletes the pod if it has this UID, which is for the server to check
	// (metav1.Preconditions). If it has another one the error is a conflict.
	Delete(ctx context.Context, namespace, name string, uid types.UID) error
	// List returns all pods of a namespace that have all of the labels.
	List(ctx context.Context, namespace string, labels map[string]string) ([]v1.Pod, error)
	// Watch tells of a pod and of the events that are about it, until ctx ends or
	// Stop is called. What was before it, it may tell or not.
	Watch(ctx context.Context, pod *v1.Pod) (PodWatch, error)
}

// A PodWatch is used by one goroutine.
type PodWatch interface {
	// Next waits for the next update. After an error that is not ctx's the watch is
	// not used any more: closed, expired, broken are all the same.
	Next(ctx context.Context) (PodUpdate, error)
	// Stop ends the watch. It is called once.
	Stop()
}

// A PodUpdate is news of a pod, or an event that is about it.
type PodUpdate struct {
	Pod     *v1.Pod // as it is, or was last if it is deleted
	Deleted bool    // the pod is not there any more
	Event   *v1.Event
}
