// Package keylock locks names instead of values: one operation at a time for
// each path, volume or device, without a lock for all of them.
package keylock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
)

// A Map holds a lock for each key that is locked, and nothing for other keys.
// The zero value is ready for use. A Map must not be copied.
type Map struct {
	mu    sync.Mutex // guards the map and its entries
	locks map[string]*entry
	spare []*entry // unlocked entries, reused for the next keys
}

// An entry is a held lock. Entries are reused for other keys. The channels of waiters are
// not reused: a channel that was made in a bubble of testing/synctest crashes a program
// that uses it outside of the bubble.
type entry struct {
	key     string
	waiting []chan struct{} // one for each waiter; release sends to the first
	unlock  func()
}

// mostSpare limits the spare entries of a Map.
const mostSpare = 16

// Lock acquires key's lock, waiting until it is free, and returns the function that
// releases it, to be called once, from any goroutine. If ctx has ended, or ends first,
// Lock returns ctx's cause and holds no lock. Waiters are served in no particular
// order.
func (m *Map) Lock(ctx context.Context, key string) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	e, held := m.locks[key]
	if !held {
		defer m.mu.Unlock()
		return m.add(key).unlock, nil
	}
	turn := make(chan struct{}, 1)
	e.waiting = append(e.waiting, turn)
	m.mu.Unlock()
	select {
	case <-turn:
		return e.unlock, nil
	case <-ctx.Done():
	}
	if m.withdraw(e, turn) {
		return nil, context.Cause(ctx)
	}
	return e.unlock, nil // release has passed the lock to this waiter, though select chose ctx
}

// TryLock acquires key's lock if it is free, and reports whether it did.
func (m *Map) TryLock(key string) (unlock func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, held := m.locks[key]; held {
		return nil, false
	}
	return m.add(key).unlock, true
}

// add locks a key whose lock is free. The caller holds m.mu.
func (m *Map) add(key string) *entry {
	var e *entry
	if last := len(m.spare) - 1; last >= 0 {
		e, m.spare = m.spare[last], m.spare[:last]
	} else {
		e = new(entry)
		e.unlock = func() { m.release(e) }
	}
	e.key = key
	if m.locks == nil {
		m.locks = map[string]*entry{}
	}
	m.locks[key] = e
	return e
}

// release passes the lock to the first waiter, or frees it if there is none.
func (m *Map) release(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(e.waiting) > 0 {
		e.waiting[0] <- struct{}{} // does not block: the channel has a buffer
		e.waiting = e.waiting[1:]
		return
	}
	delete(m.locks, e.key)
	e.key, e.waiting = "", nil
	if len(m.spare) < mostSpare {
		m.spare = append(m.spare, e)
	}
}

// withdraw removes a waiter, and reports whether it still waited.
func (m *Map) withdraw(e *entry, turn chan struct{}) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(e.waiting, turn)
	if i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	return i >= 0
}

// A Key is one key of a Map, see [Await].
type Key struct {
	m   *Map
	key string
}

// Key returns a key of the Map. It locks nothing.
func (m *Map) Key(key string) Key { return Key{m, key} }

// Await locks a key and runs work as [ctxend.Await] does. The lock is held until work ends,
// which may be long after Await has returned: so a file system that does not answer costs
// one stuck call for each key. If ctx ends while another caller holds the lock, began is
// false and work is not called.
func Await[T any](ctx context.Context, key Key, grace time.Duration, work func() (T, error), late func(T, error)) (value T, began bool, err error) {
	unlock, err := key.m.Lock(ctx, key.key)
	if err != nil {
		return value, false, ctxend.Error(ctx)
	}
	value, err = ctxend.Await(ctx, grace, func() (T, error) {
		defer unlock()
		return work()
	}, late)
	return value, true, err
}

// Len returns the number of keys that are locked.
func (m *Map) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.locks)
}
