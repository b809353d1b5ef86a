package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// A Key is the namespace and the name of an object.
type Key = types.NamespacedName

// KeyOf returns the key of an object.
func KeyOf(object metav1.Object) Key {
	return Key{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// cacheKey returns a key in the form of client-go's package cache: NAMESPACE/NAME, or NAME.
func cacheKey(key Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// CacheConfig configures a [Cache]. The zero value selects the defaults.
type CacheConfig struct {
	// FieldSelector and LabelSelector select the objects. "": all objects of the client.
	FieldSelector, LabelSelector string
	// Consistent makes the first list consistent: not older than the call of Run. Otherwise the API
	// server may return an older state, even one older than a state that an earlier run of the
	// program has seen. Before Kubernetes 1.31 a consistent list costs the API server a read from
	// etcd of all objects of the kind.
	Consistent bool
	// Resync is the period at which handlers receive all objects again. 0: never.
	Resync time.Duration
	// Logger receives failures of lists and watches, which are retried, and panics of index
	// functions and subscribers. Nil: discarded.
	Logger *slog.Logger
}

// A Cache holds the objects of one kind as a watch of the API server delivers them. It is an
// informer of client-go with types. Its objects are shared: change only a deep copy. Its methods are
// safe for concurrent use.
type Cache[O Object] struct {
	informer cache.SharedIndexInformer
	shared   bool
	verified atomic.Bool // the objects of the shared informer are known to be of type O
	// bind makes the lists and watches of the informer end with a context: an informer passes none.
	bind func(context.Context)
	// served is closed after the first list or watch that succeeds. Nil for a shared informer.
	served <-chan struct{}
	ran    atomic.Bool
	resync time.Duration
	logger *slog.Logger
}

// resyncCheck is the period at which the informer of a cache without resyncs checks for subscribers
// with a resync period. Without a period the informer waits on a global channel, and a test in a
// bubble of testing/synctest never ends.
const resyncCheck = 24 * time.Hour

// NewCache returns a cache that lists and watches by reader. The cache is empty until Run.
// metadata.managedFields of the objects is nil, to save memory; an update with such an object
// does not change the managed fields.
func NewCache[O Object, L List](reader Reader[O, L], config CacheConfig) *Cache[O] {
	c := &Cache[O]{resync: config.Resync, logger: cmp.Or(config.Logger, slog.New(slog.DiscardHandler))}
	served := make(chan struct{})
	s := &source[O, L]{reader: reader, config: config, markServed: sync.OnceFunc(func() { close(served) })}
	c.bind, c.served = s.bind, served
	c.informer = cache.NewSharedIndexInformerWithOptions(s, newObject[O](),
		cache.SharedIndexInformerOptions{ResyncPeriod: cmp.Or(config.Resync, resyncCheck), Indexers: cache.Indexers{}})
	// Both calls fail for a started informer only.
	_ = c.informer.SetTransform(dropManagedFields)
	_ = c.informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		c.logger.Warn("list or watch failed, retrying", "kind", kindName[O](), "err", err)
	})
	return c
}

// CacheOf returns a cache over an informer of the embedder, such as one of a shared informer
// factory. The embedder starts and stops the informer; other users of it notice nothing. An
// informer with objects of another type than O is refused once it has synced: HasSynced stays
// false, and Run and WaitForSync return an error that names both types.
func CacheOf[O Object](informer cache.SharedIndexInformer, logger *slog.Logger) *Cache[O] {
	return &Cache[O]{informer: informer, shared: true, logger: cmp.Or(logger, slog.New(slog.DiscardHandler))}
}

// Run keeps the cache up to date until ctx ends; then it returns nil, and all goroutines of the
// cache have ended. Lists and watches that fail are retried with a backoff for ever. A second call
// returns an error. A cache over an informer of the embedder only waits for the end of ctx, and
// any number of calls may; they fail at once for objects of another type than O.
func (c *Cache[O]) Run(ctx context.Context) error {
	if c.shared {
		if err := c.WaitForSync(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	if c.ran.Swap(true) {
		return errors.New("api: a cache runs once")
	}
	c.bind(ctx)
	c.informer.Run(ctx.Done())
	return nil
}

// HasSynced reports whether the cache has listed all objects once.
func (c *Cache[O]) HasSynced() bool { return c.informer.HasSynced() && c.checkType() == nil }

// checkType returns an error for a shared informer with objects of another type than O. All
// objects of an informer have one type, so that one object shows the type.
func (c *Cache[O]) checkType() error {
	if !c.shared || c.verified.Load() {
		return nil
	}
	items := c.informer.GetIndexer().List()
	if len(items) == 0 {
		return nil
	}
	if _, ok := items[0].(O); !ok {
		return fmt.Errorf("api: cache of %v: the informer holds objects of type %T", reflect.TypeFor[O](), items[0])
	}
	c.verified.Store(true)
	return nil
}

// syncPoll is the pause between queries of HasSynced before the first list is complete. Informers
// do not report this moment.
const syncPoll = 10 * time.Millisecond

// WaitForSync returns nil once the cache has listed all objects, or the cause of ctx if ctx ends
// first. It fails for an informer with objects of another type than O, see [CacheOf]. While the API
// server is unavailable the wait costs no processor time.
func (c *Cache[O]) WaitForSync(ctx context.Context) error {
	if err := c.waitUntilServed(ctx); err != nil {
		return err
	}
	if err := waitUntil(ctx, c.informer.HasSynced); err != nil {
		return err
	}
	return c.checkType()
}

// waitUntilServed waits for the first answer of the API server. It returns the cause of ctx if ctx ends
// first. The informer of an embedder does not report the answer: then waitUntilServed returns at once.
func (c *Cache[O]) waitUntilServed(ctx context.Context) error {
	if c.served == nil || c.informer.HasSynced() {
		return nil
	}
	select {
	case <-c.served:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitUntil polls done until it returns true, and returns the cause of ctx if ctx ends first.
func waitUntil(ctx context.Context, done func() bool) error {
	ticker := time.NewTicker(syncPoll)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}

// Get returns the object of a key, and false if the cache does not have it. It does not call the
// API server.
func (c *Cache[O]) Get(key Key) (object O, ok bool) {
	item, exists, err := c.informer.GetIndexer().GetByKey(cacheKey(key))
	if err != nil || !exists {
		return object, false
	}
	object, ok = item.(O)
	return object, ok
}

// List returns all objects, in no particular order.
func (c *Cache[O]) List() []O { return typed[O](c.informer.GetIndexer().List()) }

// version returns the newest version that the cache has received.
func (c *Cache[O]) version() uint64 { return parseVersion(c.informer.LastSyncResourceVersion()) }

// AddIndex adds an index: of returns the values under which ByIndex finds an object, or none. An
// object on which of panics has no values; the panic is logged. Call AddIndex before Run. AddIndex
// fails if the cache, or the informer of the embedder, has an index of this name or has ended.
func (c *Cache[O]) AddIndex(name string, of func(O) []string) error {
	return c.informer.AddIndexers(cache.Indexers{name: c.indexFunc(name, of)})
}

// indexFunc returns no values for an object of another type, and for an object on which of panics:
// one object must not stop the cache.
func (c *Cache[O]) indexFunc(name string, of func(O) []string) cache.IndexFunc {
	return func(item any) (values []string, err error) {
		object, ok := item.(O)
		if !ok {
			return nil, nil
		}
		defer c.logPanic("index "+name, object)
		return of(object), nil
	}
}

// ByIndex returns the objects with a value in an index, in no particular order. It fails if the index
// does not exist.
func (c *Cache[O]) ByIndex(name, value string) ([]O, error) {
	items, err := c.informer.GetIndexer().ByIndex(name, value)
	return typed[O](items), err
}

// logPanic recovers from a panic of a caller's function and logs it. Use it with defer.
func (c *Cache[O]) logPanic(function string, object O) {
	if r := recover(); r != nil {
		c.logger.Error("a function panicked", "function", function, "object", KeyOf(object), "panic", r)
	}
}

// typed returns the items of an informer that are of type O.
func typed[O Object](items []any) []O {
	objects := make([]O, 0, len(items))
	for _, item := range items {
		if object, ok := item.(O); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// A source is the ListerWatcher of a cache. The informer calls List and Watch during the Run of the
// cache, which calls bind first.
type source[O Object, L List] struct {
	reader Reader[O, L]
	config CacheConfig
	list   func(metav1.ListOptions) (L, error)
	watch  func(metav1.ListOptions) (watch.Interface, error)
	// markServed is called after each list and watch that succeeds.
	markServed func()
}

// bind makes lists and watches end with ctx.
func (s *source[O, L]) bind(ctx context.Context) {
	s.list = func(options metav1.ListOptions) (L, error) { return s.reader.List(ctx, options) }
	s.watch = func(options metav1.ListOptions) (watch.Interface, error) { return s.reader.Watch(ctx, options) }
}

func (s *source[O, L]) List(options metav1.ListOptions) (runtime.Object, error) {
	s.choose(&options)
	if s.config.Consistent && options.ResourceVersion == "0" {
		options.ResourceVersion = "" // version "0" permits a stale list
	}
	list, err := s.list(options)
	if err != nil {
		return nil, err // and not a nil pointer in an interface
	}
	s.markServed()
	return list, nil
}

func (s *source[O, L]) Watch(options metav1.ListOptions) (watch.Interface, error) {
	s.choose(&options)
	w, err := s.watch(options)
	if err == nil {
		s.markServed() // a watch with the first objects replaces the list
	}
	return w, err
}

// IsWatchListSemanticsUnSupported reports to client-go v0.35 and later whether watches of the
// reader ignore metav1.ListOptions.SendInitialEvents, as those of clients in memory do: then the
// cache lists before it watches. A reader without this method supports SendInitialEvents.
func (s *source[O, L]) IsWatchListSemanticsUnSupported() bool {
	reader, ok := s.reader.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && reader.IsWatchListSemanticsUnSupported()
}

// choose sets the selectors of a list or a watch.
func (s *source[O, L]) choose(options *metav1.ListOptions) {
	options.FieldSelector, options.LabelSelector = s.config.FieldSelector, s.config.LabelSelector
}

// dropManagedFields removes the managed fields of an object before the cache stores the object.
func dropManagedFields(item any) (any, error) {
	if object, ok := item.(metav1.Object); ok && object.GetManagedFields() != nil {
		object.SetManagedFields(nil)
	}
	return item, nil
}
