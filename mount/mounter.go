package mount

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/volumekit/volumekit/util/keylock"
)

// A Mounter is the [Interface] to the running kernel, by system call. It works
// in the mount namespace of the process. It holds nothing that has to be closed.
type Mounter struct {
	config Config
	// mounting has the target of every Mount that the kernel is still at, also
	// when its caller has given up: there is never more than one in the kernel.
	mounting keylock.Map
	// changing has the target of every operation that may still change what is
	// mounted there: no other must overtake it. It is taken after mounting.
	changing keylock.Map
	sweep    sync.Once // of what killed processes have left
}

var _ Interface = (*Mounter)(nil)

// New returns a Mounter. It asks the system nothing.
func New(config Config) *Mounter { return &Mounter{config: config} }

// Mount implements [Interface].
func (m *Mounter) Mount(ctx context.Context, req Request) error {
	options, err := req.Parse(m.config.Allow)
	if err != nil {
		return err
	}
	req.Target = path.Clean(req.Target)
	m.sweep.Do(m.sweepStages)
	unlock, err := m.mounting.Lock(ctx, req.Target)
	if err != nil {
		return wrap("mount", req.Source, req.Target, contextError(ctx))
	}
	err = m.exclusively(ctx, req.Target, unlock, func(c *claim) error {
		return m.mount(c, req, options)
	})
	return wrap("mount", req.Source, req.Target, err)
}

// Unmount implements [Interface].
func (m *Mounter) Unmount(ctx context.Context, target string) error {
	if err := checkPath("Target", target); err != nil {
		return err
	}
	target = path.Clean(target)
	m.sweep.Do(m.sweepStages)
	err := m.exclusively(ctx, target, func() {}, func(c *claim) error {
		return unmount(c, target)
	})
	return wrap("unmount", "", target, err)
}

// IsMountPoint implements [Interface].
func (m *Mounter) IsMountPoint(p string) (bool, error) {
	if err := checkAbsolute("Path", p); err != nil {
		return false, err
	}
	mounted, err := isMountPoint(p)
	return mounted, wrap("is mount point", "", p, err)
}

// MountRefs implements [Interface].
func (m *Mounter) MountRefs(p string) ([]string, error) {
	if err := checkAbsolute("Path", p); err != nil {
		return nil, err
	}
	refs, err := mountRefs(p)
	return refs, wrap("mount refs", "", p, err)
}

// List implements [Interface].
func (m *Mounter) List() ([]Info, error) {
	table, err := readTable()
	return table, wrap("list", "", "", err)
}

func wrap(op, source, target string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Source: source, Target: target, Err: err}
}

// A claim is the right to change what is mounted. Either the work takes it, and
// then its caller waits for the change; or the caller takes it back when its
// context has ended, and then the work must end without a change.
type claim struct{ state atomic.Int32 }

const (
	claimFree int32 = iota
	claimTaken
	claimRevoked
)

// take reports whether the work may change the world, now and from now on.
func (c *claim) take() bool {
	return c.state.CompareAndSwap(claimFree, claimTaken) || c.state.Load() == claimTaken
}

// revoke reports whether the claim was still free; the work cannot take it then.
func (c *claim) revoke() bool { return c.state.CompareAndSwap(claimFree, claimRevoked) }

// errAbandoned is what work returns when its claim was taken back.
var errAbandoned = errors.New("abandoned")

// settle is how long a caller whose context has ended waits for the work: the
// kernel needs microseconds, or is stuck. What it has open until then would keep
// the target busy for the next call.
const settle = 50 * time.Millisecond

// exclusively runs work when no other may change the target. It returns soon after
// ctx ends. The target stays locked until the work has ended, or can change
// nothing any more. It calls ended when the work has ended, or is not to begin.
func (m *Mounter) exclusively(ctx context.Context, target string, ended func(), work func(*claim) error) error {
	unlock, err := m.changing.Lock(ctx, target)
	if err != nil {
		ended()
		return contextError(ctx)
	}
	c := new(claim)
	if ctx.Done() == nil {
		defer ended()
		defer unlock()
		return work(c)
	}
	unlock = sync.OnceFunc(unlock)
	done := make(chan error, 1)
	go func() {
		err := work(c)
		unlock()
		ended()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	revoked := c.revoke()
	select {
	case err := <-done:
		if errors.Is(err, errAbandoned) {
			return contextError(ctx)
		}
		return err
	case <-time.After(settle):
	}
	if revoked {
		unlock()
		return contextError(ctx)
	}
	return fmt.Errorf("%w: %w", ErrUncertain, contextError(ctx))
}

// contextError returns an error that is ctx.Err() as well as ctx's cause.
func contextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}
