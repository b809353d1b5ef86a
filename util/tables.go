package util

import (
	"context"
	"sync"

	"github.com/volumekit/volumekit/mount"
)

// tables reads the mount table once for all who ask for it in the same moment. Each gets
// one whose reading began after the question: an older one may lack what has been mounted
// since.
type tables struct {
	mounter mount.Interface

	mu      sync.Mutex
	waiting *reading // the one that begins next, if somebody waits for it
	busy    bool     // one is under way
}

// A reading is of the mount table, for several who wait.
type reading struct {
	ctx     context.Context // ends when nobody waits any more
	cancel  context.CancelFunc
	waiters int // under the lock of tables

	done  chan struct{} // closed when the rest is set
	table mount.Table
	err   error
}

// list returns the table, which is shared with others and must not be changed.
func (t *tables) list(ctx context.Context) (mount.Table, error) {
	r := t.join()
	select {
	case <-r.done:
		return r.table, r.err
	case <-ctx.Done():
		t.leave(r)
		return nil, context.Cause(ctx)
	}
}

// join returns a reading that has not begun.
func (t *tables) join() *reading {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = &reading{done: make(chan struct{})}
		t.waiting.ctx, t.waiting.cancel = context.WithCancel(context.Background())
	}
	t.waiting.waiters++
	if !t.busy {
		t.busy = true
		go t.readAll()
	}
	return t.waiting
}

func (t *tables) leave(r *reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.waiters--; r.waiters > 0 {
		return
	}
	r.cancel()
	if t.waiting == r { // who comes now must not get what has been cancelled
		t.waiting = nil
	}
}

// readAll reads as long as somebody waits.
func (t *tables) readAll() {
	for r := t.next(); r != nil; r = t.next() {
		r.table, r.err = t.mounter.List(r.ctx)
		close(r.done)
		r.cancel()
	}
}

func (t *tables) next() *reading {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.waiting
	t.waiting, t.busy = nil, r != nil
	return r
}
