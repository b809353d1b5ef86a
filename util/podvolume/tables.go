package podvolume

import (
	"context"
	"sync"

	"github.com/volumekit/volumekit/mount"
)

// tables reads the mount table once for all callers that ask for it in the same moment,
// and derives one view from it. Each caller receives a view of a reading that began after
// its question: an older one may lack mounts that were made since.
type tables struct {
	mounter mount.Interface

	mu      sync.Mutex
	waiting *reading // the one that begins next; nil without a waiting caller
	busy    bool     // one is under way
}

// A reading is one read of the mount table, for several callers.
type reading struct {
	waiters int                // under the lock of tables
	cancel  context.CancelFunc // ends the read, called with the last waiting caller; nil: not begun

	done chan struct{} // closed when the rest is set
	view *mount.View
	err  error
}

// view returns a view of the table, which the callers share.
func (t *tables) view(ctx context.Context) (*mount.View, error) {
	r := t.join()
	select {
	case <-r.done:
		return r.view, r.err
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
	if r.cancel != nil {
		r.cancel()
		return
	}
	t.waiting = nil // begins for no caller
}

// readAll reads as long as callers wait.
func (t *tables) readAll() {
	for ctx, r := t.next(); r != nil; ctx, r = t.next() {
		var table mount.Table
		if table, r.err = t.mounter.List(ctx); r.err == nil {
			r.view = table.View()
		}
		close(r.done)
		r.cancel()
	}
}

// next begins the reading that callers wait for. It returns nil if no caller waits.
func (t *tables) next() (context.Context, *reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.waiting
	t.waiting, t.busy = nil, r != nil
	if r == nil {
		return nil, nil
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	return ctx, r
}
