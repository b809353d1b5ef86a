// Package keylock locks names instead of values: one operation at a time for
// each path, volume or device, without a lock for all of them.
package keylock

import (
	"context"
	"sync"
)

// A Map holds a lock for each key that somebody holds or waits for, and nothing
// for the others. The zero value is ready for use. A Map must not be copied.
type Map struct {
	mu    sync.Mutex // guards locks and the refs of its entries
	locks map[string]*entry
}

type entry struct {
	held chan struct{} // full while somebody holds the lock
	refs int           // holders and waiters
}

// Lock waits until no one else holds key's lock, takes it, and returns the
// function that gives it back, to be called once, from any goroutine. When ctx
// ends first, or has ended, the error is ctx's cause and nothing is held.
// Waiters are served in no particular order.
func (m *Map) Lock(ctx context.Context, key string) (unlock func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if unlock, ok := m.TryLock(key); ok {
		return unlock, nil // also if ctx ends in this moment: not by chance, as select has it
	}
	e := m.enter(key)
	select {
	case e.held <- struct{}{}:
		return func() { <-e.held; m.leave(key, e) }, nil
	case <-ctx.Done():
		m.leave(key, e)
		return nil, context.Cause(ctx)
	}
}

// TryLock takes key's lock if no one holds it, and reports whether
// it did.
func (m *Map) TryLock(key string) (unlock func(), ok bool) {
	e := m.enter(key)
	select {
	case e.held <- struct{}{}:
		return func() { <-e.held; m.leave(key, e) }, true
	default:
		m.leave(key, e)
		return nil, false
	}
}

// Len returns the number of keys that somebody holds or waits for.
func (m *Map) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.locks)
}

func (m *Map) enter(key string) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.locks[key]
	if !ok {
		if m.locks == nil {
			m.locks = map[string]*entry{}
		}
		e = &entry{held: make(chan struct{}, 1)}
		m.locks[key] = e
	}
	e.refs++
	return e
}

func (m *Map) leave(key string, e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.refs--; e.refs == 0 {
		delete(m.locks, key)
	}
}
