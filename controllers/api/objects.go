package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Objects are the objects of one kind as a controller sees them: reads come from a cache, with the
// results of the controller's own writes on top; writes go to the API server.
//
// No read returns a state older than a write of the same Objects:
//
//   - The object that a write returned is served until the cache has reached its version.
//   - After Delete, reads serve the object with a deletion timestamp, or nil once the API server
//     has reported the object as not found, until the cache shows the same. For an object with
//     finalizers Get calls the API server until then: an update that removes a finalizer needs the
//     version after the deletion.
//   - After a write whose outcome is open (a timeout, a lost connection, an internal error), and
//     after a conflict, "already exists" or "not found", the next read of the object calls the API
//     server. The cache answers instead once it has a version above that of the object that a
//     conflicting update carried, or that was the precondition of a conflicting deletion.
//
// So a controller neither conflicts with itself nor decides on a state older than its own writes.
// All other reads come from memory. The cache has to contain the objects that are written or read
// live: one outside of its selectors is read from the API server every half minute.
//
// Objects are safe for concurrent use; controllers of one process may share them. Returned objects
// are shared: change only a deep copy.
type Objects[O Object] struct {
	cache  *Cache[O]
	client func(namespace string) objectClient[O]

	mu      sync.Mutex // held while the cache is read, never during a call to the API server
	own     map[Key]*ownState[O]
	flights map[*flight]struct{}
	reads   map[Key]*flight // the last read of each open state, see readOpen
}

// An objectClient is the part of a Client that does not depend on the type of its lists.
type objectClient[O Object] interface {
	Writer[O]
	Get(ctx context.Context, name string, opts metav1.GetOptions) (O, error)
}

// NewObjects returns the objects of a cache, which are read and written by the clients that client
// returns for their namespaces: NewObjects(cluster.Pods, cache), or for a cluster-scoped kind
// NewObjects(ClusterScoped(cluster.Nodes()), cache).
func NewObjects[C Client[O, L], O Object, L List](client func(namespace string) C, cache *Cache[O]) *Objects[O] {
	return &Objects[O]{
		cache:   cache,
		client:  func(namespace string) objectClient[O] { return client(namespace) },
		own:     map[Key]*ownState[O]{},
		flights: map[*flight]struct{}{},
		reads:   map[Key]*flight{},
	}
}

// Cache returns the cache that the objects are read from.
func (o *Objects[O]) Cache() *Cache[O] { return o.cache }

// Run follows the cache until ctx ends, and drops the own states that the cache has reached; then
// it returns nil. It fails at once if the informer of the cache has ended before ctx. Run does not run the
// cache. Without Run, reads and writes are correct, but a deletion by another program during a
// write of these Objects can stay unnoticed for half a minute.
func (o *Objects[O]) Run(ctx context.Context) error {
	_, stop, err := o.cache.Subscribe(o.follow)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // the cache ends with the same context
	case err != nil:
		return fmt.Errorf("follow the cache: %w", err)
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// Get returns the newest known state of an object, and nil if the object does not exist. It calls
// the API server only for an object whose state is open (see [Objects]); then it returns the errors
// of Live. Before the cache has synced, Get returns nil for an object without own writes.
func (o *Objects[O]) Get(ctx context.Context, key Key) (O, error) {
	for {
		object, open := o.newest(key)
		if !open {
			return object, nil
		}
		object, isRead, err := o.readOpen(ctx, key)
		if isRead || err != nil {
			return object, err
		}
	}
}

// Live reads an object from the API server, and returns nil if the object does not exist. Later
// reads return this state or a newer one, apart from the absence of an object that was not in
// memory: a late cache can still deliver an object that was created and deleted before. Live
// returns the error of the API server or of ctx.
func (o *Objects[O]) Live(ctx context.Context, key Key) (object O, err error) {
	f := o.begin(key)
	defer o.end(f)
	return o.read(ctx, f)
}

// read is Live for a flight.
func (o *Objects[O]) read(ctx context.Context, f *flight) (object O, err error) {
	key := f.key
	known := o.known(key)
	object, err = o.client(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case isGone(err):
		o.record(f, key, goneState(known))
		return *new(O), nil
	case err != nil:
		return *new(O), err
	}
	o.record(f, key, presentState(object))
	return object, nil
}

// List returns the newest known states of all objects, in no particular order. It first reads all
// objects whose state is open from the API server, one by one, and fails if a read fails.
func (o *Objects[O]) List(ctx context.Context) ([]O, error) {
	everything := func(O) bool { return true }
	return o.merge(ctx, o.cache.List, everything)
}

// ByIndex returns the newest known states of the objects with a value in an index of the cache,
// in no particular order. It calls the API server and fails as List does, and fails if the index
// does not exist.
func (o *Objects[O]) ByIndex(ctx context.Context, index, value string) ([]O, error) {
	of, ok := o.cache.informer.GetIndexer().GetIndexers()[index]
	if !ok {
		return nil, fmt.Errorf("index %q does not exist", index)
	}
	var failure error
	cached := func() []O {
		objects, err := o.cache.ByIndex(index, value)
		failure = err
		return objects
	}
	objects, err := o.merge(ctx, cached, func(object O) bool {
		values, err := of(object)
		return err == nil && slices.Contains(values, value)
	})
	return objects, errors.Join(err, failure)
}

// Create creates an object and returns it as the API server stored it. Like each write it returns
// the error of the API server (package k8s.io/apimachinery/pkg/api/errors classifies it) or of ctx.
// If ctx ends during a write, the write may have taken effect.
func (o *Objects[O]) Create(ctx context.Context, object O) (O, error) {
	return o.write(KeyOf(object), unknownBase, func(client objectClient[O]) (O, error) {
		return client.Create(ctx, object, metav1.CreateOptions{})
	})
}

// Update replaces an object and returns it as the API server stored it. If the stored object has
// changed since the resourceVersion of object, the error is a conflict.
func (o *Objects[O]) Update(ctx context.Context, object O) (O, error) {
	return o.write(KeyOf(object), baseOf(object), func(client objectClient[O]) (O, error) {
		return client.Update(ctx, object, metav1.UpdateOptions{})
	})
}

// UpdateStatus replaces the status of an object and returns the object as the API server stored
// it. For a kind without a status subresource the error wraps errors.ErrUnsupported.
func (o *Objects[O]) UpdateStatus(ctx context.Context, object O) (O, error) {
	return o.write(KeyOf(object), baseOf(object), func(client objectClient[O]) (O, error) {
		status, ok := client.(StatusWriter[O])
		if !ok {
			return *new(O), &unsupported{fmt.Errorf("update the status of %T: %w", object, errors.ErrUnsupported)}
		}
		return status.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	})
}

// Patch patches an object, or the subresource of it, and returns the object as the API server
// stored it. It returns errors as Create does.
func (o *Objects[O]) Patch(ctx context.Context, key Key, patchType types.PatchType, data []byte, subresources ...string) (O, error) {
	return o.write(key, unknownBase, func(client objectClient[O]) (O, error) {
		return client.Patch(ctx, key.Name, patchType, data, metav1.PatchOptions{}, subresources...)
	})
}

// Delete deletes the object with the name and the UID of object. Unless options has preconditions,
// the UID is the precondition: the error is a conflict if another object has the name. The error is
// "not found" if no object has the name. For an object without a UID the name alone counts. An
// object with finalizers remains until the last finalizer is removed.
func (o *Objects[O]) Delete(ctx context.Context, object O, options metav1.DeleteOptions) error {
	key, uid := KeyOf(object), object.GetUID()
	if options.Preconditions == nil && uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	f := o.begin(key)
	defer o.end(f)
	known := o.known(key)
	if !exists(known) || uid != "" && known.GetUID() != uid {
		known = object
	}
	err := o.client(key.Namespace).Delete(ctx, key.Name, options)
	switch {
	case err != nil:
		o.fail(key, preconditionOf(options), err)
	case len(options.DryRun) > 0: // nothing has changed
	case known.GetUID() == "": // the deleted object is unknown
		o.reopen(key, unknownBase)
	default:
		o.record(f, key, deletingState(known))
	}
	return err
}

// write calls the API server and records the result. A state in the cache above the version base
// is newer than the state that a conflicting write was based on.
func (o *Objects[O]) write(key Key, base uint64, call func(objectClient[O]) (O, error)) (O, error) {
	f := o.begin(key)
	defer o.end(f)
	object, err := call(o.client(key.Namespace))
	if err != nil {
		o.fail(key, base, err)
		return *new(O), err
	}
	if isEnded(object) {
		o.record(f, KeyOf(object), goneState(object))
	} else {
		o.record(f, KeyOf(object), presentState(object))
	}
	return object, nil
}

// fail records the effect of a failed write on the state of the object. "Not found" opens the state
// and does not end the object: a missing namespace, a missing subresource and a webhook cause the
// same error.
func (o *Objects[O]) fail(key Key, base uint64, err error) {
	switch {
	case key.Name == "": // the server generates the name: no state in memory is affected
	case apierrors.IsConflict(err):
		o.reopen(key, base)
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), isOpen(err):
		o.reopen(key, unknownBase)
	}
}

// baseOf returns the version that an update is based on, and unknownBase for an update without a
// resourceVersion.
func baseOf(object metav1.Object) uint64 {
	return cmp.Or(versionOf(object), unknownBase)
}

// preconditionOf returns the version that a deletion requires, and unknownBase if it requires none.
func preconditionOf(options metav1.DeleteOptions) uint64 {
	if options.Preconditions == nil || options.Preconditions.ResourceVersion == nil {
		return unknownBase
	}
	return cmp.Or(parseVersion(*options.Preconditions.ResourceVersion), unknownBase)
}

// isGone reports whether the error of a read proves that the object does not exist. The 404 of a
// proxy, or of an API server that does not serve the kind, is no proof.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// unsupported is the error of a write that was not sent, so that its outcome is not open.
type unsupported struct{ error }

func (u *unsupported) Unwrap() error { return u.error }

// isOpen reports whether a write that failed with err may have taken effect. A refusal of the API
// server (4xx) changes nothing; after any other error the write may have been stored.
func isOpen(err error) bool {
	if errors.As(err, new(*unsupported)) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code < 400 || code >= 500 || code == 408
}

// isEnded reports whether the write that returned object has ended it: the API server deletes an
// object that is being deleted when its last finalizer is removed.
func isEnded(object Object) bool {
	if namespace, ok := object.(*v1.Namespace); ok && len(namespace.Spec.Finalizers) > 0 {
		return false
	}
	grace := object.GetDeletionGracePeriodSeconds()
	return object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}
