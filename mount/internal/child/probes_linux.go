package child

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/util/ctxend"
)

// Probes are the probes in flight: at most one per mount, for all callers. The zero value
// is ready for use.
type Probes struct {
	mu       sync.Mutex
	inFlight map[kernel.MountID]*probe
}

// Responds reports whether the file system of a mount, with the descriptor fd in it,
// completes a statfs(2) within grace. The grace period begins with the first of the callers
// that probe this mount.
//
// An error of statfs(2) is a response, with two exceptions. Errors of a dead FUSE daemon or
// of a removed export report false. An aborted call, which another mount of the file system
// causes by MNT_FORCE, is repeated.
//
// Responds reports true if the answer is unknown: without a child, and as long as the child has
// not reached its statfs(2). Forced unmounts need certainty.
func (p *Probes) Responds(ctx context.Context, mount kernel.MountID, fd int, grace time.Duration) (bool, error) {
	var first time.Time
	for {
		probe, err := p.join(mount, fd)
		if err != nil {
			return true, nil //nolint:nilerr // see above
		}
		if first.IsZero() {
			first = probe.since
		}
		done, err := probe.await(ctx, time.Until(first.Add(grace)))
		switch {
		case err != nil:
			return false, err
		case !done:
			return !probe.process.hasCalledStatfs(), nil
		case !errors.Is(probe.err, errAborted):
			return !isDead(probe.err), nil
		case !time.Now().Before(first.Add(grace)):
			return false, nil
		}
		const pause = 5 * time.Millisecond
		if err := ctxend.Sleep(ctx, pause); err != nil {
			return false, err
		}
	}
}

// CheckDaemon returns the error of a file system whose daemon or export has gone, with the descriptor fd
// in a mount of it, and the error of ctx if that ends first. It returns nil for a file system that
// answers, for one that does not answer within grace of the first probe, and if the answer is unknown.
// The child has a hold, so that the probe does not make the mount busy; a file system that never
// answers stays in use by it, also after an unmount.
func (p *Probes) CheckDaemon(ctx context.Context, mount kernel.MountID, fd int, grace time.Duration) error {
	hold, err := HoldSuperblock(fd)
	if err != nil {
		return nil //nolint:nilerr // unknown
	}
	probe, err := p.join(mount, hold)
	kernel.Close(hold) // the child has its own; fd keeps the file system alive
	if err != nil {
		return nil //nolint:nilerr // unknown
	}
	done, err := probe.await(ctx, time.Until(probe.since.Add(grace)))
	switch {
	case err != nil:
		return err
	case done && isDead(probe.err):
		return probe.err
	}
	return nil
}

// join returns the probe in flight for a mount, or starts one.
func (p *Probes) join(mount kernel.MountID, fd int) (*probe, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if probe, ok := p.inFlight[mount]; ok {
		return probe, nil
	}
	process, err := startProbe(fd)
	if err != nil {
		return nil, err
	}
	started := &probe{since: time.Now(), process: process, done: make(chan struct{})}
	if p.inFlight == nil {
		p.inFlight = map[kernel.MountID]*probe{}
	}
	p.inFlight[mount] = started
	go p.complete(mount, started)
	return started, nil
}

func (p *Probes) complete(mount kernel.MountID, probe *probe) {
	probe.err = probe.process.probeResult()
	p.mu.Lock()
	delete(p.inFlight, mount)
	p.mu.Unlock()
	close(probe.done)
}
