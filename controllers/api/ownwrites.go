package api

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A flight is a call to the API server that has not returned. The cache may show the result of the
// call, and the end of the object, before the call returns.
type flight struct {
	key       Key
	deleted   []types.UID   // objects that ended in the cache meanwhile
	overtaken bool          // the outcome of another write of the object has become open meanwhile
	ended     chan struct{} // closed once the call has returned
}

// begin and end enclose a call to the API server about an object.
func (o *Objects[O]) begin(key Key) *flight {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.beginLocked(key)
}

func (o *Objects[O]) beginLocked(key Key) *flight {
	f := &flight{key: key, ended: make(chan struct{})}
	o.flights[f] = struct{}{}
	return f
}

func (o *Objects[O]) end(f *flight) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(f.ended)
	delete(o.flights, f)
	if o.reads[f.key] == f {
		delete(o.reads, f.key)
	}
}

// readOpen reads an object whose state is open from the API server. If another goroutine reads it, and began
// after the state became open, readOpen waits for the end of that read, and isRead is false.
func (o *Objects[O]) readOpen(ctx context.Context, key Key) (object O, isRead bool, err error) {
	o.mu.Lock()
	f := o.reads[key]
	if isRead = f == nil || f.overtaken; isRead {
		f = o.beginLocked(key)
		o.reads[key] = f
	}
	o.mu.Unlock()
	if isRead {
		defer o.end(f)
		object, err = o.read(ctx, f)
		return object, true, err
	}
	select {
	case <-f.ended:
		return object, false, nil
	case <-ctx.Done():
		return object, false, context.Cause(ctx)
	}
}

// newest returns the newest known state. If open is true, only the API server has the state.
func (o *Objects[O]) newest(key Key) (object O, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := o.look(key)
	return v.object, v.open || v.old
}

// look returns the view of an object, and drops an own state that the cache has reached. The caller
// holds mu.
func (o *Objects[O]) look(key Key) view[O] {
	cached, _ := o.cache.Get(key)
	state, ok := o.own[key]
	if !ok {
		return view[O]{object: cached}
	}
	v := state.view(reader[O]{cached, time.Now(), o.cache.version})
	if v.reached {
		delete(o.own, key)
	}
	return v
}

// known returns the newest state in memory, even if the outcome of a write is open.
func (o *Objects[O]) known(key Key) O {
	o.mu.Lock()
	defer o.mu.Unlock()
	cached, inCache := o.cache.Get(key)
	state, ok := o.own[key]
	if !ok || !exists(state.object) || inCache && versionOf(cached) > state.version {
		return cached
	}
	return state.object
}

// record stores the state that a call to the API server has returned, unless a newer one is known.
func (o *Objects[O]) record(f *flight, key Key, state ownState[O]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if state.old { // calls that began before the deletion do not have the version after it
		o.overtake(key)
	}
	if slices.Contains(f.deleted, state.uid) {
		state = ownState[O]{uid: state.uid, version: state.version, seen: true}
	}
	if before, ok := o.own[key]; ok {
		state = state.after(*before)
		if f.overtaken {
			state.open, state.base = true, unknownBase
		}
	}
	state.since = time.Now()
	o.own[key] = &state
	o.look(key)
}

// reopen makes the next read call the API server, unless the cache then has a version above base.
func (o *Objects[O]) reopen(key Key, base uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	state, ok := o.own[key]
	if !ok {
		state = &ownState[O]{since: time.Now()}
		o.own[key] = state
	}
	if !state.open || base > state.base {
		state.open, state.base = true, base
	}
	o.overtake(key)
}

// overtake marks the calls that began before the state of an object became open: their results do
// not close it. The caller holds mu.
func (o *Objects[O]) overtake(key Key) {
	for f := range o.flights {
		f.overtaken = f.overtaken || f.key == key
	}
}

// follow drops the own state of an object once the cache has reached it, and records the end of an
// object for the calls in flight.
func (o *Objects[O]) follow(change Change[O]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !exists(change.New) || exists(change.Old) && change.Old.GetUID() != change.New.GetUID() {
		for f := range o.flights {
			f.deleted = append(f.deleted, change.Old.GetUID())
		}
	}
	if state, ok := o.own[change.Key()]; ok {
		state.seen = state.seen || change.Object().GetUID() == state.uid
		o.look(change.Key())
	}
}

// merge returns the objects in the cache and the own states that match. A state that becomes open
// while readAllOpen reads other ones is read in another round: the object must not be missing.
func (o *Objects[O]) merge(ctx context.Context, cached func() []O, match func(O) bool) ([]O, error) {
	for {
		if err := o.readAllOpen(ctx); err != nil {
			return nil, err
		}
		if objects, ok := o.overlay(cached, match); ok {
			return objects, nil
		}
	}
}

// overlay puts the own states that match over the objects in the cache, unless a state is open.
func (o *Objects[O]) overlay(cached func() []O, match func(O) bool) (objects []O, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var own []O
	for key := range o.own {
		v := o.look(key)
		if v.open {
			return nil, false
		}
		if !v.reached && exists(v.object) && match(v.object) {
			own = append(own, v.object)
		}
	}
	objects = slices.DeleteFunc(cached(), func(object O) bool {
		_, ok := o.own[KeyOf(object)]
		return ok
	})
	return append(objects, own...), true
}

// readAllOpen reads the objects whose state is open from the API server.
func (o *Objects[O]) readAllOpen(ctx context.Context) error {
	for _, key := range o.openKeys() {
		if _, _, err := o.readOpen(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// openKeys returns the keys of the objects whose state is open.
func (o *Objects[O]) openKeys() (keys []Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.own {
		if o.look(key).open {
			keys = append(keys, key)
		}
	}
	return keys
}
