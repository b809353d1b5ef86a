package api_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

var claimResource = schema.GroupResource{Resource: "persistentvolumeclaims"}

// A server is an API server for claims, in memory. Its watches deliver nothing while it is held.
type server struct {
	mu       sync.Mutex
	claims   map[api.Key]*v1.PersistentVolumeClaim
	version  int
	log      []watch.Event // all events
	versions []int         // of the events
	held     bool
	expired  bool // the next watch is refused: 410 Gone
	watches  []*watching
	calls    []string
	before   func(call string) error // fails a call without an effect
	after    func(call string) error // fails a call that took effect
}

type watching struct {
	*watch.FakeWatcher
	next int // the first event in the log to deliver
}

func newServer() *server { return &server{claims: map[api.Key]*v1.PersistentVolumeClaim{}} }

// claimsOf returns the client of a namespace.
func (s *server) claimsOf(namespace string) api.PersistentVolumeClaims { return client{s, namespace} }

// hold stops the delivery of watch events, release continues it.
func (s *server) hold() { s.mu.Lock(); s.held = true; s.mu.Unlock() }

func (s *server) release() { s.mu.Lock(); s.held = false; s.deliver(); s.mu.Unlock() }

// cut ends all watches, and forgets the events that they have not delivered: clients list again.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches, s.log, s.versions, s.expired = nil, nil, nil, true
}

func (s *server) takeCalls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// put stores a claim as another program would, and returns it.
func (s *server) put(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(claim.DeepCopy())
}

// remove deletes a claim as another program would.
func (s *server) remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(api.Key{Namespace: namespace, Name: name})
}

func (s *server) store(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	s.version++
	kind := watch.Modified
	if claim.UID == "" {
		kind, claim.UID = watch.Added, types.UID("uid-"+strconv.Itoa(s.version))
	}
	claim.ResourceVersion = strconv.Itoa(s.version)
	s.claims[api.KeyOf(claim)] = claim
	s.emit(kind, claim)
	return claim.DeepCopy()
}

func (s *server) drop(key api.Key) {
	claim := s.claims[key].DeepCopy()
	delete(s.claims, key)
	s.version++
	claim.ResourceVersion = strconv.Itoa(s.version)
	s.emit(watch.Deleted, claim)
}

func (s *server) emit(kind watch.EventType, claim *v1.PersistentVolumeClaim) {
	s.log = append(s.log, watch.Event{Type: kind, Object: claim})
	s.versions = append(s.versions, s.version)
	s.deliver()
}

func (s *server) deliver() {
	for _, w := range s.watches {
		for ; !s.held && w.next < len(s.log); w.next++ {
			w.Action(s.log[w.next].Type, s.log[w.next].Object.DeepCopyObject())
		}
	}
}

// call runs the effect of a call between the injected failures.
func (s *server) call(name string, effect func() (*v1.PersistentVolumeClaim, error)) (*v1.PersistentVolumeClaim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name)
	if s.before != nil {
		if err := s.before(name); err != nil {
			return nil, err
		}
	}
	claim, err := effect()
	if err == nil && s.after != nil {
		err = s.after(name)
	}
	if err != nil {
		return nil, err
	}
	return claim, nil
}

// A client is the client of one namespace.
type client struct {
	*server
	namespace string
}

// IsWatchListSemanticsUnSupported: watches begin with no list.
func (c client) IsWatchListSemanticsUnSupported() bool { return true }

func (c client) key(name string) api.Key { return api.Key{Namespace: c.namespace, Name: name} }

func (c client) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1.PersistentVolumeClaim, error) {
	return c.call("get", func() (*v1.PersistentVolumeClaim, error) {
		claim, ok := c.claims[c.key(name)]
		if !ok {
			return nil, apierrors.NewNotFound(claimResource, name)
		}
		return claim.DeepCopy(), nil
	})
}

func (c client) List(context.Context, metav1.ListOptions) (*v1.PersistentVolumeClaimList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, "list")
	list := &v1.PersistentVolumeClaimList{}
	list.ResourceVersion = strconv.Itoa(c.version)
	for _, key := range slices.SortedFunc(maps.Keys(c.claims), func(a, b api.Key) int { return len(a.Name) - len(b.Name) }) {
		list.Items = append(list.Items, *c.claims[key].DeepCopy())
	}
	return list, nil
}

func (c client) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, "watch")
	if c.expired {
		c.expired = false
		return nil, apierrors.NewResourceExpired("too old")
	}
	from, _ := strconv.Atoi(options.ResourceVersion)
	w := &watching{FakeWatcher: watch.NewFakeWithChanSize(1000, false)}
	for w.next < len(c.log) && c.versions[w.next] <= from {
		w.next++
	}
	c.watches = append(c.watches, w)
	c.deliver()
	return w, nil
}

func (c client) Create(_ context.Context, claim *v1.PersistentVolumeClaim, _ metav1.CreateOptions) (*v1.PersistentVolumeClaim, error) {
	return c.call("create", func() (*v1.PersistentVolumeClaim, error) {
		claim := claim.DeepCopy()
		claim.Namespace = c.namespace
		if claim.Name == "" {
			claim.Name = claim.GenerateName + strconv.Itoa(c.version)
		}
		if _, ok := c.claims[api.KeyOf(claim)]; ok {
			return nil, apierrors.NewAlreadyExists(claimResource, claim.Name)
		}
		return c.store(claim), nil
	})
}

func (c client) Update(_ context.Context, claim *v1.PersistentVolumeClaim, _ metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	return c.call("update", func() (*v1.PersistentVolumeClaim, error) { return c.replace(claim) })
}

func (c client) UpdateStatus(_ context.Context, claim *v1.PersistentVolumeClaim, _ metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	return c.call("update status", func() (*v1.PersistentVolumeClaim, error) { return c.replace(claim) })
}

func (c client) replace(claim *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, error) {
	stored, ok := c.claims[c.key(claim.Name)]
	switch {
	case !ok:
		return nil, apierrors.NewNotFound(claimResource, claim.Name)
	case stored.ResourceVersion != claim.ResourceVersion:
		return nil, apierrors.NewConflict(claimResource, claim.Name, nil)
	case stored.DeletionTimestamp != nil && len(claim.Finalizers) == 0:
		c.drop(c.key(claim.Name))
		return claim.DeepCopy(), nil // as the API server: with the version before
	}
	return c.store(claim.DeepCopy()), nil
}

func (c client) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*v1.PersistentVolumeClaim, error) {
	return c.call("patch", func() (*v1.PersistentVolumeClaim, error) {
		stored, ok := c.claims[c.key(name)]
		if !ok {
			return nil, apierrors.NewNotFound(claimResource, name)
		}
		claim := stored.DeepCopy()
		claim.Spec.VolumeName = string(data)
		return c.store(claim), nil
	})
}

// isAnother reports whether a claim does not meet the preconditions.
func isAnother(claim *v1.PersistentVolumeClaim, p *metav1.Preconditions) bool {
	return p != nil && (p.UID != nil && *p.UID != claim.UID || p.ResourceVersion != nil && *p.ResourceVersion != claim.ResourceVersion)
}

func (c client) Delete(_ context.Context, name string, options metav1.DeleteOptions) error {
	_, err := c.call("delete", func() (*v1.PersistentVolumeClaim, error) {
		stored, ok := c.claims[c.key(name)]
		switch {
		case !ok:
			return nil, apierrors.NewNotFound(claimResource, name)
		case isAnother(stored, options.Preconditions):
			return nil, apierrors.NewConflict(claimResource, name, nil)
		case len(stored.Finalizers) == 0:
			c.drop(c.key(name))
		case stored.DeletionTimestamp == nil:
			claim, now := stored.DeepCopy(), metav1.Now()
			claim.DeletionTimestamp = &now
			c.store(claim)
		}
		return nil, nil
	})
	return err
}
