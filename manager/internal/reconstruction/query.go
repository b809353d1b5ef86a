package reconstruction

import (
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/manager/internal/poddirs"
)

// A query is one call of a plugin for the volume in a directory.
type query struct {
	poddirs.Volume
	state  atomic.Int32 // awaited, answered or abandoned
	answer chan Volume  // of length 1
}

// queries are the queries in flight and the late results. The zero value has none.
type queries struct {
	mu   sync.Mutex
	open map[poddirs.Volume]bool
	late []Volume
}

// The states of a query.
const (
	awaited int32 = iota
	answered
	abandoned // the caller has continued; the result goes to the loop
)

// startQuery returns a query of the directory, or nil if one is in flight.
func (q *queries) startQuery(f poddirs.Volume) *query {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[f] {
		return nil
	}
	if q.open == nil {
		q.open = map[poddirs.Volume]bool{}
	}
	q.open[f] = true
	return &query{Volume: f, answer: make(chan Volume, 1)}
}

// endQuery passes the result to the caller, or keeps it for the loop.
func (q *queries) endQuery(one *query, r Volume) (isLate bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, one.Volume)
	if one.state.CompareAndSwap(awaited, answered) {
		one.answer <- r
		return false
	}
	q.late = append(q.late, r)
	return true
}

// drainLate returns the late results, each once.
func (q *queries) drainLate() (late []Volume) {
	q.mu.Lock()
	defer q.mu.Unlock()
	late, q.late = q.late, nil
	return late
}
