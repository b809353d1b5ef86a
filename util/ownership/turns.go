package ownership

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/util/ctxend"
)

// turns are those who work on a directory, in this process.
var turns = struct {
	mu   sync.Mutex
	busy map[identity]chan struct{} // closed at the end
}{busy: map[identity]chan struct{}{}}

// An identity is what a directory is known by.
type identity struct{ device, inode uint64 }

// takeTurn waits until nobody else works on a directory, or ctx ends.
func takeTurn(ctx context.Context, id identity) (end func(), err error) {
	for {
		turns.mu.Lock()
		before, busy := turns.busy[id]
		if !busy {
			mine := make(chan struct{})
			turns.busy[id] = mine
			turns.mu.Unlock()
			return func() {
				turns.mu.Lock()
				defer turns.mu.Unlock()
				delete(turns.busy, id)
				close(mine)
			}, nil
		}
		turns.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrBusy, ctxend.Error(ctx))
		}
	}
}
