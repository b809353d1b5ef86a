package attach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// mostTurns ends a turn in which other writers undo each step.
const mostTurns = 20

// handle plans and takes the steps for a volume until a plan has no step with a call.
func (c *Controller) handle(ctx context.Context, k key) (workers.Result, error) {
	switch {
	case k.orphan != "":
		return c.handleOrphan(ctx, k.orphan)
	case !c.isOurs(k.volume):
		return workers.Result{}, nil
	}
	for range mostTurns {
		v, err := c.view(ctx, k.volume)
		if err != nil {
			return workers.Result{}, fmt.Errorf("volume %q: %w", k.volume, err)
		}
		steps, wakeAt := plan(v.view)
		c.reportErrors(v)
		if next := c.reportWaits(v); !next.IsZero() && (wakeAt.IsZero() || next.Before(wakeAt)) {
			wakeAt = next
		}
		c.forgetLeft(v)
		c.requestReports(v, steps)
		isChanged, err := c.takeSteps(ctx, v, steps)
		switch {
		case err != nil:
			return workers.Result{}, fmt.Errorf("volume %q: %w", k.volume, err)
		case !isChanged:
			return workers.Result{After: c.pause(v, wakeAt)}, nil
		}
	}
	return workers.Result{}, fmt.Errorf("volume %q: no end after %d turns", k.volume, mostTurns)
}

// pause returns the pause until the next turn of a volume: at wakeAt, unless it is zero, and soon while an
// object is not in its cache, which would not report its end. 0: none.
func (c *Controller) pause(v *volumeView, wakeAt time.Time) (pause time.Duration) {
	shorten := func(other time.Duration) {
		if other > 0 && (pause == 0 || other < pause) {
			pause = other
		}
	}
	if !wakeAt.IsZero() {
		pause = max(time.Until(wakeAt), time.Millisecond)
	}
	for _, until := range c.lost.of(v.id, v.now) {
		shorten(max(time.Until(until), time.Millisecond)) // then it is forgotten
	}
	shorten(v.fullFor)
	for _, va := range v.attachments {
		shorten(unseen.PauseFor(c.attachments, va))
	}
	for _, node := range v.objects {
		shorten(unseen.PauseForState(c.nodes, node))
	}
	return pause
}

// forgetLeft drops the memory of nodes that the volume has left.
func (c *Controller) forgetLeft(v *volumeView) {
	c.noteMissing(key{volume: v.id}, slices.Collect(maps.Keys(v.byName))...)
	isThere := func(n *nodeView) bool { return n != nil && (n.state != detached || n.pending != noReporting) }
	c.reports.withdrawn.keep(v.id, func(name types.NodeName) bool { return isThere(v.byName[name]) })
	c.timers.keep(v.id, func(name types.NodeName) bool { return isThere(v.byName[name]) })
	c.plugged.keep(v.id, func(name types.NodeName) bool {
		n := v.byName[name]
		return n == nil || isThere(n) || n.isHeld || n.isReported
	})
	c.failures.keep(v.id, func(name types.NodeName) bool {
		n := v.byName[name]
		return isThere(n) || n != nil && v.isWanted(n)
	})
	c.waiting.keep(v.id, func(name types.NodeName) bool {
		n := v.byName[name]
		return n != nil && n.isFull
	})
}

// requestReports passes the changes of volumesAttached to the workers of the nodes, which queue the volume
// after the write, and reports the nodes that the volume is not attached to.
func (c *Controller) requestReports(v *volumeView, steps []step) {
	for _, s := range steps {
		n := s.node
		switch s.kind {
		case stepWithdraw:
			if known, ok := c.plugged.of(v.id)[n.name]; !v.isCSI && n.isReported && (!ok || known.devicePath == "") {
				c.plugged.set(v.id, n.name, pluggedState{state: n.state, devicePath: n.reportedPath})
			}
			c.request(v, n, report{reporting: removing}, v.lastWrite)
		case stepReport:
			if c.request(v, n, report{adding, n.devicePath}, v.lastWrite) && !n.isReported {
				c.reportAttached(v, n)
			}
		case stepRefuse:
			if n.isFull && c.waiting.add(n.name, v.id) {
				c.volumePool.Add(key{volume: v.id}) // room that came before the registration woke no volume
			}
			c.reportRefusal(v, s)
		}
	}
}

// request requests a change of volumesAttached that was planned after a write of changes.
func (c *Controller) request(v *volumeView, n *nodeView, change report, since uint64) (isNew bool) {
	if isNew = c.reports.request(n.name, v.id, change, since); isNew {
		c.nodePool.Add(string(n.name))
	}
	return isNew
}

// takeSteps makes the calls of the steps, all at the same time, and reports whether there was one. Detaches do
// not depend on the holders.
func (c *Controller) takeSteps(ctx context.Context, v *volumeView, steps []step) (isChanged bool, err error) {
	var (
		calls sync.WaitGroup
		mu    sync.Mutex
	)
	heldErr := c.holdForPlugin(ctx, v, steps)
	for _, s := range steps {
		call := c.callOf(s)
		isChanged = isChanged || call != nil || s.kind == stepRelease
		if call == nil || s.kind == stepAttach && heldErr != nil {
			continue
		}
		calls.Go(func() {
			if failed := safely(ctx, v, s, call); failed != nil {
				mu.Lock()
				defer mu.Unlock()
				err = errors.Join(err, failed)
			}
		})
	}
	calls.Wait()
	return isChanged, errors.Join(heldErr, err)
}

// safely makes the call of a step, in a goroutine of its own, and returns a panic as an error. The outcome of the call
// is open then.
func safely(ctx context.Context, v *volumeView, s step, call func(context.Context, *volumeView, step) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return call(ctx, v, s)
}

// callOf returns the call of a step, nil for one without a call of its own.
func (c *Controller) callOf(s step) func(context.Context, *volumeView, step) error {
	switch s.kind {
	case stepAttach:
		return c.attach
	case stepDetach:
		return c.detach
	case stepForce:
		return c.force
	}
	return nil
}

func (c *Controller) attach(ctx context.Context, v *volumeView, s step) error {
	if !v.isCSI {
		return c.attachByPlugin(ctx, v, s.node)
	}
	err := c.createAttachment(ctx, v, s.node)
	switch {
	case err == nil:
		c.failures.forget(v.id, s.node.name)
	case isRefused(err):
		c.reportAttachFailure(v, s.node, err)
		return nil
	case apierrors.IsInternalError(err): // such as that of a webhook that fails
		c.announceAttachFailure(v, s.node, err)
	}
	return err
}

func (c *Controller) detach(ctx context.Context, v *volumeView, s step) error {
	if !v.isCSI {
		return c.detachByPlugin(ctx, v, s.node)
	}
	err := c.deleteAttachment(ctx, v.attachments[s.node.name], v.id)
	if err != nil && isRefused(err) {
		c.reportDetachFailure(v, s.node, err)
		c.putBack(v, s.node, "")
		return nil
	}
	return err
}

// putBack reports a volume as attached whose detach has changed nothing.
func (c *Controller) putBack(v *volumeView, n *nodeView, devicePath string) {
	if n.exists && (n.state == attached || devicePath != "") {
		c.request(v, n, report{adding, devicePath}, c.reports.lastWrite()) // no plan is older
	}
}

// force detaches from a node that the API server shows as dead.
func (c *Controller) force(ctx context.Context, v *volumeView, s step) error {
	isDead, err := c.confirmDead(ctx, s.node.name)
	if err != nil || !isDead {
		return err
	}
	c.reportForced(v, s)
	return c.detach(ctx, v, s)
}

// isRefused reports whether the API server has refused a write for good: not for a conflict, and not for
// the absence of the object.
func isRefused(err error) bool {
	return !isOpen(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err)
}

// isOpen reports whether a write that failed may have taken effect.
func isOpen(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code < 400 || code >= 500 || code == 408
}
