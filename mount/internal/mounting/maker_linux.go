package mounting

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/mount/internal/child"
	"github.com/volumekit/volumekit/mount/internal/inflight"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/table"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// A Config has the parts that a maker shares with its creator.
type Config struct {
	Builder  *building.Builder
	Resolver *lookup.Resolver
	Kinds    *record.Kinds
	// Locks has the target of each operation that may still change the mount table.
	Locks *keylock.Map
	// Cache is of a concrete type: by an interface each bind mount would allocate a closure.
	Cache *table.Cache
	// Probes ask daemons whether they live.
	Probes *child.Probes
}

// A Maker mounts. Its methods are safe for concurrent use.
type Maker struct {
	Config
	// inFlight has the target of each arrival in flight, also if its caller has given up. It
	// is locked before Locks.
	inFlight keylock.Map
	// TableLength is the length of the mount table at its last reading.
	TableLength atomic.Int64
}

// New returns a maker.
func New(config Config) *Maker { return &Maker{Config: config} }

// Mount mounts a checked spec. A bind mount runs in the caller's goroutine as long as it does
// not have to wait for a file system.
func (m *Maker) Mount(ctx context.Context, s *spec.Spec) error {
	unlock, err := m.inFlight.Lock(ctx, s.Target)
	if err != nil {
		return ctxend.Error(ctx)
	}
	lease := inflight.NewLease(unlock)
	defer lease.Release()
	unlock, err = m.Locks.Lock(ctx, s.Target)
	if err != nil {
		return ctxend.Error(ctx)
	}
	if ctx.Done() == nil || s.IsBind() {
		a := m.newArrival(s)
		a.lease, a.claim = lease, &inflight.Claim{MustNotWait: ctx.Done() != nil}
		err := a.run(ctx)
		if ctx.Done() == nil || !errors.Is(err, errMayWait) {
			unlock()
			return err
		}
	}
	lease.Share()
	return inflight.RunClaimed(ctx, unlock, func(c *inflight.Claim) error {
		defer lease.Release()
		a := m.newArrival(s)
		a.lease, a.claim = lease, c
		return a.run(ctx)
	})
}

// errMayWait ends an arrival that must not wait, and may have to.
var errMayWait = errors.New("attaching may wait for a file system")
