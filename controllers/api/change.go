package api

import (
	"k8s.io/client-go/tools/cache"
)

// A Change is the step of an object in a cache from one state to the next. After a gap of the watch
// a Change covers several steps: if the object was deleted and another object of the name was
// created meanwhile, Old and New have different UIDs, and Old of a deleted object can be older than
// the last state of the object.
type Change[O Object] struct {
	// Old is the state before, nil for a new object. New is the state after, nil for a deleted
	// object.
	Old, New O
	// Replay is true for a state that is no news: the cache delivers it with its first list, by a
	// resync, or by a new list. Controllers handle news first. A deletion is never a replay.
	Replay bool
}

// Key returns the key of the object.
func (c Change[O]) Key() Key { return KeyOf(c.Object()) }

// Object returns New, or Old of a deleted object.
func (c Change[O]) Object() O {
	if exists(c.New) {
		return c.New
	}
	return c.Old
}

// Subscribe calls handle for each object in the cache, and then for each change, in the order of
// the changes, one at a time, after the cache has stored the change. A handle that blocks delays no
// other subscriber; its changes are queued in memory, without a limit. A panic of handle is logged.
// stop ends the calls; a call in progress may continue after stop has returned. synced reports
// whether handle has received the first list. Subscribe fails if the informer has ended.
func (c *Cache[O]) Subscribe(handle func(Change[O])) (synced func() bool, stop func(), err error) {
	safely := func(change Change[O]) {
		defer c.logPanic("handler", change.Object())
		handle(change)
	}
	registration, err := c.register(handler[O](safely))
	if err != nil {
		return nil, nil, err
	}
	return registration.HasSynced, func() { _ = c.informer.RemoveEventHandler(registration) }, nil
}

// register adds a handler to the informer with the resync period of the cache.
func (c *Cache[O]) register(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	if c.shared {
		return c.informer.AddEventHandler(h) // with the resync period of the embedder
	}
	return c.informer.AddEventHandlerWithResyncPeriod(h, c.resync)
}

// A handler passes the notifications of an informer on as changes.
type handler[O Object] func(Change[O])

func (h handler[O]) OnAdd(item any, initial bool) {
	if object, ok := item.(O); ok {
		h(Change[O]{New: object, Replay: initial})
	}
}

func (h handler[O]) OnUpdate(before, after any) {
	older, ok := before.(O)
	newer, ok2 := after.(O)
	if !ok || !ok2 {
		return
	}
	h(Change[O]{Old: older, New: newer, Replay: isSameState(older, newer)})
}

// isSameState reports whether an update is a resync, or follows from a new list: both deliver the
// version that is already in the cache.
func isSameState[O Object](older, newer O) bool {
	version := newer.GetResourceVersion()
	return version != "" && version == older.GetResourceVersion() && older.GetUID() == newer.GetUID()
}

// OnDelete receives the last known state instead of the object if the informer has missed the
// deletion.
func (h handler[O]) OnDelete(item any) {
	if unknown, ok := item.(cache.DeletedFinalStateUnknown); ok {
		item = unknown.Obj
	}
	if object, ok := item.(O); ok {
		h(Change[O]{Old: object})
	}
}
