package api

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// An Object is a pointer to an object of the API, such as *v1.Pod.
type Object interface {
	metav1.Object
	runtime.Object
}

// A List is a pointer to a list of objects, such as *v1.PodList.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// A Reader reads the objects of one kind, in one namespace or in all of them, from the API
// server. Caches are built from it. Get of a missing object returns an error for which
// apierrors.IsNotFound is true. A Reader whose Watch ignores SendInitialEvents has a method
// IsWatchListSemanticsUnSupported that returns true, as the fakes of client-go have: otherwise a
// cache with client-go v0.35 or later waits for ever. A watch ends with its ctx.
type Reader[O Object, L List] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (O, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// A Writer writes the objects of one kind, in one namespace. Each method that returns an object
// returns it as the API server stored it. Package k8s.io/apimachinery/pkg/api/errors classifies the
// errors of the API server. If ctx ends during a write, the write may have taken effect.
type Writer[O Object] interface {
	Create(ctx context.Context, object O, opts metav1.CreateOptions) (O, error)
	// Update replaces the object, apart from its status if the kind has a status subresource.
	// With a resourceVersion it fails with a conflict if the object has changed since.
	Update(ctx context.Context, object O, opts metav1.UpdateOptions) (O, error)
	Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (O, error)
	// Delete deletes the object. An object with finalizers remains, with a deletion timestamp,
	// until the last finalizer is removed.
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// A Client reads and writes the objects of one kind. The typed clients of client-go are Clients.
// Implementations are safe for concurrent use, and return soon after ctx ends.
type Client[O Object, L List] interface {
	Reader[O, L]
	Writer[O]
}

// A StatusWriter writes the status of objects.
type StatusWriter[O Object] interface {
	// UpdateStatus replaces the status of the object, and nothing else, as Update does.
	UpdateStatus(ctx context.Context, object O, opts metav1.UpdateOptions) (O, error)
}

// A StatusClient is the Client of a kind with a status subresource.
type StatusClient[O Object, L List] interface {
	Client[O, L]
	StatusWriter[O]
}
