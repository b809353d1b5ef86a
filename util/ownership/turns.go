package ownership

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/util/ctxend"
)

// turns has the directories that calls of this process work on.
var turns = struct {
	mu   sync.Mutex
	busy map[identity]chan struct{} // closed at the end of the work
}{busy: map[identity]chan struct{}{}}

// An identity identifies a directory.
type identity struct{ device, inode uint64 }

// takeTurn waits until no other call works on a directory, or ctx ends.
func takeTurn(ctx context.Context, id identity) (end func(), err error) {
	for {
		turns.mu.Lock()
		before, busy := turns.busy[id]
		if !busy {
			turn := make(chan struct{})
			turns.busy[id] = turn
			turns.mu.Unlock()
			return func() {
				turns.mu.Lock()
				defer turns.mu.Unlock()
				delete(turns.busy, id)
				close(turn)
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
