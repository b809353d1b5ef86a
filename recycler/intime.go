package recycler

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
)

// works counts the recyclings in flight, including those whose callers have returned.
type works struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n falls to 0; nil: n is 0
}

// inTime runs work, which holds locks, and returns soon after ctx ends. Work that has not
// ended then continues with its locks; the error is uncertain and passes through left.
func (w *works) inTime(ctx context.Context, unlock func(), work func() error, left func(error) error) error {
	type ended struct{ err error }
	w.begin()
	e, err := ctxend.Await(ctx, ctxend.Controller, func() (ended, error) {
		defer w.end()
		defer unlock()
		return ended{work()}, nil
	}, nil)
	if err == nil {
		return e.err
	}
	return left(volume.AsUncertain(err))
}

func (w *works) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n++; w.n == 1 {
		w.none = make(chan struct{})
	}
}

func (w *works) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n--; w.n == 0 {
		close(w.none)
		w.none = nil
	}
}

// wait returns when no work is under way.
func (w *works) wait(ctx context.Context) error {
	w.mu.Lock()
	none := w.none
	w.mu.Unlock()
	if none == nil {
		return nil
	}
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of recycling: %w", ctxend.Error(ctx))
	}
}
