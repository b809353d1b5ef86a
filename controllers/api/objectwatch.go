package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// ObjectWatchConfig configures an [ObjectWatch]. Key is required.
type ObjectWatchConfig[O Object] struct {
	Key Key
	// Changed is called for the first state of the object and for each change, one at a time, after
	// Get returns the new state. It must not block. A panic of Changed is logged. Nil: no calls.
	Changed func(Change[O])
	// Logger receives failures of lists and watches, which are retried. Nil: discarded.
	Logger *slog.Logger
}

// An ObjectWatch holds one object as a watch of the API server by its name delivers it, for
// programs that need few objects of a kind with many: one costs a goroutine and a watch, a [Cache]
// several goroutines and buffers. It lists and watches with the field selector metadata.name, so
// that rules with resourceNames permit it. The object is shared: change only a deep copy. Its
// methods are safe for concurrent use.
type ObjectWatch[O Object] struct {
	config ObjectWatchConfig[O]
	list   func(context.Context, metav1.ListOptions) (List, error)
	watch  func(context.Context, metav1.ListOptions) (watch.Interface, error)
	tried  chan struct{} // closed when the first list has ended, with or without success

	mu     sync.Mutex
	ran    bool
	synced bool
	object O     // nil: it does not exist, if synced
	err    error // why the object is not synced
}

// NewObjectWatch returns a watch of the object with the namespace and the name of config.Key.
// reader must be the client of this namespace. The watch calls the API server only during Run.
func NewObjectWatch[O Object, L List](reader Reader[O, L], config ObjectWatchConfig[O]) *ObjectWatch[O] {
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	return &ObjectWatch[O]{
		config: config,
		list: func(ctx context.Context, options metav1.ListOptions) (List, error) {
			list, err := reader.List(ctx, options)
			if err != nil {
				return nil, err // and not a nil pointer in an interface
			}
			return list, nil
		},
		watch: reader.Watch,
		tried: make(chan struct{}),
	}
}

// Get returns the last known state of the object, and nil if the object does not exist. Get waits
// until the first list has ended, or returns the cause of ctx if ctx ends first. While no list has
// succeeded, Get returns the error of the last list. During an outage of the API server Get returns
// the last known state.
func (w *ObjectWatch[O]) Get(ctx context.Context) (O, error) {
	select {
	case <-w.tried:
	case <-ctx.Done():
		return *new(O), context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return *new(O), w.err
	}
	return w.object, nil
}

// Last returns the last known state of the object and does not block. known is false until a list
// has succeeded. If known is true and object is nil, the object does not exist.
func (w *ObjectWatch[O]) Last() (object O, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.object, w.synced
}

// Run keeps the object up to date until ctx ends; then it returns nil. Failed lists and watches are
// retried with a backoff. After Run, Get returns the last state, or the cause of ctx if no list has
// succeeded. A second call returns an error.
func (w *ObjectWatch[O]) Run(ctx context.Context) error {
	w.mu.Lock()
	ran := w.ran
	w.ran = true
	w.mu.Unlock()
	if ran {
		return errors.New("api: an object watch runs once")
	}
	version, failures := "", 0
	for ctx.Err() == nil {
		var err error
		if version == "" {
			version, err = w.relist(ctx)
		}
		if err == nil {
			version, err = w.follow(ctx, version)
		}
		if err == nil {
			failures = 0
			continue
		}
		w.fail(ctx, err)
		failures++
		sleep(ctx, retryPause(failures))
	}
	w.fail(ctx, context.Cause(ctx))
	return nil
}

// Pauses between failed lists and watches of an object, as those of caches.
const (
	firstRetry = 800 * time.Millisecond
	mostRetry  = 30 * time.Second
)

// retryPause returns the pause after a number of failures in a row. A random part of up to half of
// the pause is added, so that not all clients of a restarted API server watch again at once.
func retryPause(failures int) time.Duration {
	pause := mostRetry
	if failures < 7 {
		pause = min(mostRetry, firstRetry<<(failures-1))
	}
	return pause + rand.N(pause/2)
}

// sleep returns after the pause, or when ctx ends.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// fail logs a failed list or watch. Before the first state it records the error, which Get returns.
func (w *ObjectWatch[O]) fail(ctx context.Context, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil {
		w.config.Logger.Warn("list or watch failed, retrying", "kind", kindName[O](), "object", w.config.Key, "err", err)
	}
	if !w.synced {
		w.err = err
		w.closeTried()
	}
}

// closeTried ends the waits of Get. The caller holds mu.
func (w *ObjectWatch[O]) closeTried() {
	select {
	case <-w.tried:
	default:
		close(w.tried)
	}
}

// options returns the options that select the object by its name.
func (w *ObjectWatch[O]) options() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.config.Key.Name).String()}
}

// relist reads the object and returns the version from which to watch. The list is consistent: the
// object is not older than the call.
func (w *ObjectWatch[O]) relist(ctx context.Context) (version string, err error) {
	list, err := w.list(ctx, w.options())
	if err != nil {
		return "", fmt.Errorf("list: %w", err)
	}
	var found O
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(O); ok && KeyOf(object) == w.config.Key {
			found = object
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("list: %w", err)
	}
	w.store(found)
	return list.GetResourceVersion(), nil
}

// store sets the state of the object, and reports a change.
func (w *ObjectWatch[O]) store(object O) {
	if exists(object) {
		object.SetManagedFields(nil)
	}
	w.mu.Lock()
	change := Change[O]{Old: w.object, New: object, Replay: !w.synced}
	w.object, w.synced, w.err = object, true, nil
	w.closeTried()
	w.mu.Unlock()
	if w.config.Changed == nil || !exists(change.Old) && !exists(change.New) ||
		exists(change.Old) && exists(change.New) && isSameState(change.Old, change.New) {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			w.config.Logger.Error("a function panicked", "function", "Changed", "object", w.config.Key, "panic", r)
		}
	}()
	w.config.Changed(change)
}

// Durations of watches. The watch requests a timeout from the API server, at random between
// watchTime and twice watchTime. A watch that ends within shortWatch without a new version counts
// as failed, so that the next watch begins after a pause.
const (
	watchTime  = 5 * time.Minute
	shortWatch = time.Second
)

// follow watches the object from a version until the watch ends. It returns the version from which
// the next watch begins, or "" if a list must come first.
func (w *ObjectWatch[O]) follow(ctx context.Context, version string) (next string, err error) {
	options, start := w.options(), time.Now()
	seconds := int64((watchTime + rand.N(watchTime)) / time.Second)
	options.ResourceVersion, options.TimeoutSeconds, options.AllowWatchBookmarks = version, &seconds, true
	watcher, err := w.watch(ctx, options)
	if err != nil {
		return resumable(version, err), fmt.Errorf("watch: %w", err)
	}
	defer watcher.Stop()
	next = version
	for events := watcher.ResultChan(); ; {
		select {
		case <-ctx.Done():
			return next, nil
		case event, ok := <-events:
			switch {
			case !ok && next == version && time.Since(start) < shortWatch:
				return next, errors.New("watch: ended at once")
			case !ok:
				return next, nil
			case event.Type == watch.Error:
				err := apierrors.FromObject(event.Object)
				return resumable(next, err), fmt.Errorf("watch: %w", err)
			}
			if version := w.apply(event); version != "" {
				next = version
			}
		}
	}
}

// resumable returns the version from which to watch after an error, or "" if a list must come
// first: after an error status of the API server, such as 410 Gone, but not after 429.
func resumable(version string, err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && !apierrors.IsTooManyRequests(err) {
		return ""
	}
	return version
}

// apply stores the object of an event and returns its version.
func (w *ObjectWatch[O]) apply(event watch.Event) (version string) {
	object, ok := event.Object.(O)
	if !ok {
		return ""
	}
	version = object.GetResourceVersion()
	if event.Type == watch.Bookmark || KeyOf(object) != w.config.Key {
		return version
	}
	if event.Type == watch.Deleted {
		object = *new(O)
	}
	w.store(object)
	return version
}
