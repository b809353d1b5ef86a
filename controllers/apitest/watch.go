package apitest

import (
	"context"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// mostTimeout is a time in seconds that no test waits for, and that a time.Duration holds.
const mostTimeout = 1 << 32

// eventBuffer is the number of events that a watch delivers without a goroutine.
const eventBuffer = 4

// A watcher is a watch of a client. An idle watcher has no goroutine: events go into the channel,
// and a goroutine delivers the rest.
type watcher struct {
	server  *Server
	cluster *Cluster
	number  uint64
	sel     selection
	from    uint64 // the watch begins after this version
	marks   bool   // the client allows bookmarks
	events  chan watch.Event
	done    chan struct{} // closed by Stop
	release []func()      // when the watch ends

	mu       sync.Mutex // after Server.mu
	pending  []delivery // in the order of delivery
	pumping  bool       // a goroutine delivers pending
	held     int        // holds of the delivery
	finished bool       // ends when pending is delivered
	stopped  bool       // ends without delivering pending
	closed   bool       // events is closed
}

// A delivery is an event that waits. The object is shared; the client receives a copy.
type delivery struct {
	kind   watch.EventType
	object runtime.Object
	// version replaces that of the object, unless it is 0: a deletion has a version of its own.
	version uint64
	due     time.Time // of a delayed event
	// initial: the event belongs to the streamed list that the watch begins with. Holds are for changes.
	initial bool
}

func (d delivery) event() watch.Event {
	object := d.object.DeepCopyObject()
	if d.version != 0 {
		object.(api.Object).SetResourceVersion(formatVersion(d.version))
	}
	return watch.Event{Type: d.kind, Object: object}
}

// watch opens a watch. The caller holds no lock.
func (c *Cluster) watch(ctx context.Context, k *kind, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	s := c.server
	sel, err := newSelection(k, namespace, options)
	if err != nil {
		return nil, err
	}
	if errs := validateWatchOptions(&options); len(errs) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", errs)
	}
	version, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watcher{
		server: s, cluster: c, sel: sel, marks: options.AllowWatchBookmarks,
		events: make(chan watch.Event, eventBuffer), done: make(chan struct{}),
	}
	if err := c.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.watches++
	w.number, w.held = s.watches, s.faults.holdsOf(c)
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	if initial {
		if err := s.checkReached(version); err != nil {
			return nil, err
		}
	}
	t := s.tables[k]
	missed, ok := t.since(version)
	switch {
	case initial || version == 0 && options.SendInitialEvents == nil:
		w.from = s.version
		for _, object := range t.find(sel) {
			w.send(delivery{kind: watch.Added, object: object, initial: initial})
		}
		if initial && options.AllowWatchBookmarks {
			bookmark := w.bookmark()
			bookmark.initial = true
			bookmark.object.(api.Object).SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
			w.send(bookmark)
		}
	case version == 0:
		w.from = s.version
	case !ok:
		w.send(delivery{kind: watch.Error, object: statusOf(apierrors.NewResourceExpired("too old resource version: " + formatVersion(version) +
			" (" + formatVersion(t.compacted) + ")"))})
		if w.finish() {
			t.addWatcher(w)
		}
		return w, nil
	default:
		w.from = version
		for _, c := range missed {
			w.change(c)
		}
	}
	if w.hasEnded() {
		return w, nil
	}
	t.addWatcher(w)
	w.release = append(w.release, stopper(context.AfterFunc(ctx, w.Stop)))
	if seconds := options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		timer := time.AfterFunc(time.Duration(min(*seconds, mostTimeout))*time.Second, w.timeOut)
		w.release = append(w.release, stopper(timer.Stop))
	}
	return w, nil
}

func stopper(stop func() bool) func() { return func() { stop() } }

func statusOf(err *apierrors.StatusError) *metav1.Status {
	status := err.Status()
	return &status
}

// change sends the event of a change. It requires Server.mu.
func (w *watcher) change(c *change) {
	if c.version <= w.from {
		return
	}
	kind, object, ok := eventOf(c, w.sel)
	if !ok {
		return
	}
	d := delivery{kind: kind, object: object, version: c.version}
	switch fault := w.server.faults.ofEvent(w, kind, object); {
	case fault.Cut:
		w.cut()
		w.server.forget(w)
	case fault.Drop:
	default:
		if fault.Delay > 0 {
			d.due = time.Now().Add(fault.Delay)
		}
		w.send(d)
	}
}

// bookmark returns an event with the current version of the server. It requires Server.mu.
func (w *watcher) bookmark() delivery {
	object := w.sel.kind.empty()
	object.SetResourceVersion(formatVersion(w.server.version))
	return delivery{kind: watch.Bookmark, object: object}
}

// timeOut ends the watch as the server does after timeoutSeconds.
func (w *watcher) timeOut() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.sendBookmark()
	if !w.finish() {
		w.server.forget(w)
	}
}

// sendBookmark sends a bookmark if the client allows bookmarks. It requires Server.mu.
func (w *watcher) sendBookmark() {
	if w.marks {
		w.send(w.bookmark())
	}
}

// send delivers an event after the pending ones.
func (w *watcher) send(d delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.finished {
		return
	}
	if len(w.pending) == 0 && !w.pumping && !w.holds(d) && d.due.IsZero() {
		select {
		case w.events <- d.event():
			return
		default:
		}
	}
	w.pending = append(w.pending, d)
	w.startPump()
}

// holds reports whether an event waits for resume. It requires w.mu.
func (w *watcher) holds(d delivery) bool { return w.held > 0 && !d.initial }

// startPump starts the goroutine that delivers pending events, unless it runs, there are none, or
// they are held. It requires w.mu.
func (w *watcher) startPump() {
	if !w.pumping && len(w.pending) > 0 && !w.holds(w.pending[0]) {
		w.pumping = true
		go w.pump()
	}
}

// pump delivers pending events until none is left, or until the watch is held or stopped.
func (w *watcher) pump() {
	for {
		d, ok := w.next()
		if !ok {
			w.forgetIfDone()
			return
		}
		if !d.due.IsZero() {
			timer := time.NewTimer(time.Until(d.due))
			select {
			case <-timer.C:
			case <-w.done:
				timer.Stop()
				continue // a stopped watch delivers nothing more
			}
		}
		select {
		case w.events <- d.event():
		case <-w.done:
		}
	}
}

// next returns the event that pump delivers next, or ends pump.
func (w *watcher) next() (d delivery, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || len(w.pending) == 0 || w.holds(w.pending[0]) {
		w.pumping = false
		w.closeIfDone()
		return d, false
	}
	d, w.pending = w.pending[0], w.pending[1:]
	if len(w.pending) == 0 {
		w.pending = nil
	}
	return d, true
}

// closeIfDone closes the channel of a watch that has ended once no event is being delivered. It
// requires w.mu.
func (w *watcher) closeIfDone() {
	if w.finished && len(w.pending) == 0 && !w.pumping {
		w.stop()
	}
	if w.stopped && !w.pumping && !w.closed {
		w.closed = true
		close(w.events)
	}
}

// stop ends the delivery of events. It requires w.mu.
func (w *watcher) stop() {
	if !w.stopped {
		w.stopped = true
		close(w.done)
	}
}

func (w *watcher) hasEnded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

// hold stops the delivery of events; each resume reverts one hold.
func (w *watcher) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held++
}

// resume requires Server.mu.
func (w *watcher) resume() {
	w.mu.Lock()
	w.held--
	w.startPump()
	w.closeIfDone()
	obsolete := w.finished && w.stopped
	w.mu.Unlock()
	if obsolete {
		w.server.forget(w)
	}
}

// finish ends the watch after the pending events. isOpen reports whether any are left: then the watch has
// to stay in its table, for resume and CutWatches.
func (w *watcher) finish() (isOpen bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = true
	w.closeIfDone()
	return !w.stopped
}

// forgetIfDone removes a watch that has timed out once its last event is delivered.
func (w *watcher) forgetIfDone() {
	w.mu.Lock()
	isDone := w.finished && w.stopped
	w.mu.Unlock()
	if !isDone {
		return
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.forget(w)
}

// cut ends the watch at once and drops the pending events.
func (w *watcher) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = nil
	w.stop()
	w.closeIfDone()
}

// Stop ends the watch for its client.
func (w *watcher) Stop() {
	w.cut()
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.forget(w)
}

// ResultChan returns the channel of the events.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// forget removes a watch that has ended. It requires s.mu.
func (s *Server) forget(w *watcher) {
	s.tables[w.sel.kind].removeWatcher(w)
	for _, release := range w.release {
		release()
	}
	w.release = nil
}
