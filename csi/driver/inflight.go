package driver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/keylock"
	"google.golang.org/grpc/codes"
)

// calls are the calls in flight, one for each volume.
type calls struct {
	locks keylock.Map // by name of the volume

	mu      sync.Mutex // guards holders
	holders map[string]context.Context
}

// leavingTime is the time for which a call waits for one whose context has ended: the caller has given
// up that call, and plugins return soon after.
const leavingTime = time.Second

// exclusively runs work on a volume while no other call changes the volume. The error names operation and
// volume.
func (d *driver) exclusively(ctx context.Context, operation string, id volumeID, work func() error) error {
	unlock, err := d.inFlight.lock(ctx, id.name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := work(); err != nil {
		return fmt.Errorf("%s volume %s: %w", operation, input.Quote(id.text), err)
	}
	return nil
}

// lock keeps other calls from the volume until unlock is called. If another call is in flight the error is
// ABORTED, at once unless that call is about to end.
func (c *calls) lock(ctx context.Context, key string) (unlock func(), err error) {
	release, ok := c.locks.TryLock(key)
	if !ok && c.isLeaving(key) {
		waiting, cancel := context.WithTimeout(ctx, leavingTime)
		defer cancel()
		release, err = c.locks.Lock(waiting, key)
		ok = err == nil
	}
	if !ok {
		return nil, codedf(codes.Aborted, "another call for volume %s is in flight", brief.Name(key))
	}
	c.hold(key, ctx)
	return func() {
		c.hold(key, nil)
		release()
	}, nil
}

// isLeaving reports whether the context of the call in flight has ended.
func (c *calls) isLeaving(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder := c.holders[key]
	return holder == nil || holder.Err() != nil
}

// hold notes the context of the call in flight; nil: none.
func (c *calls) hold(key string, ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx == nil {
		delete(c.holders, key)
		return
	}
	if c.holders == nil {
		c.holders = map[string]context.Context{}
	}
	c.holders[key] = ctx
}
