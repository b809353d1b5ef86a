package expand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/panics"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// mostSteps ends a turn in which other writers undo each step.
const mostSteps = 20

// handle takes the steps for a claim until none is left.
func (c *Controller) handle(ctx context.Context, key api.Key) (workers.Result, error) {
	// isProven: the API server has shown in this turn that the claim has the size to expand to. A cache
	// may be so old that its size was given up since.
	isProven := false
	for range mostSteps {
		v, err := c.view(ctx, key)
		if err != nil {
			return workers.Result{}, err
		}
		if v.claim == nil {
			c.attempts.Forget(key)
			return workers.Result{}, nil
		}
		step, size := decide(v)
		if step == stepNone {
			return c.lookAgain(v), nil
		}
		name := c.config.Expander.Name(v.volume)
		if name == "" {
			c.reportExternal(key, v.claim)
			return workers.Result{}, nil
		}
		switch step {
		case stepClear:
			err = c.clear(ctx, v.volume)
		case stepMark:
			if pause := c.pause(key, v, size); pause > 0 {
				return workers.Result{After: pause}, nil
			}
			err = c.mark(ctx, key, v, name, size)
			isProven = true
		case stepRepeat:
			if !isProven {
				_, err = c.claims.Live(ctx, key)
				isProven = true
				break
			}
			return c.expand(ctx, key, v, name, size)
		}
		if err != nil {
			return workers.Result{}, fmt.Errorf("claim %s: %w", key, err)
		}
	}
	return workers.Result{}, fmt.Errorf("claim %s: no end after %d steps", key, mostSteps)
}

// view returns the newest known state of a claim and its volume.
func (c *Controller) view(ctx context.Context, key api.Key) (v view, err error) {
	if v.claim, err = c.claims.Get(ctx, key); err != nil {
		return v, fmt.Errorf("read claim %s: %w", key, err)
	}
	if v.claim == nil || v.claim.Spec.VolumeName == "" {
		return v, nil
	}
	if v.volume, err = c.volumes.Get(ctx, api.Key{Name: v.claim.Spec.VolumeName}); err != nil {
		return v, fmt.Errorf("read volume %q: %w", v.claim.Spec.VolumeName, err)
	}
	last := c.attempts.Get(key, v.claim.UID)
	allocated := v.claim.Status.AllocatedResources[v1.ResourceStorage]
	v.isSettled = last.isSettled && quantity.Check(&allocated) == nil && last.size.Cmp(allocated) == 0
	return v, nil
}

// pause returns the rest of the pause after a call that was infeasible, on the storage or on the node.
func (c *Controller) pause(key api.Key, v view, size resource.Quantity) time.Duration {
	last, state := c.attempts.Get(key, v.claim.UID), stateOf(v.claim)
	if state != infeasible && state != nodeInfeasible || !last.isOf(size, requestOf(v.claim)) {
		return 0
	}
	return time.Until(last.ended.Add(c.config.RetryInfeasible))
}

// expand calls the Expander and writes the outcome to the volume and to the claim. The write to the claim
// is the cause of the next turn, if one is needed.
func (c *Controller) expand(ctx context.Context, key api.Key, v view, name string, size resource.Quantity) (workers.Result, error) {
	result, err := c.call(ctx, v, name, size)
	c.remember(key, v.claim, size, err)
	if err == nil {
		err = c.record(ctx, key, v, result)
	} else {
		c.reportFailure(key, v.claim, name, err)
		if volume.KindOf(err) == volume.Final {
			if patchErr := c.patchClaim(ctx, v.claim, failure(v.claim, err)); patchErr != nil {
				err = patchErr
			} else if isInfeasible(err) {
				return workers.Result{After: c.config.RetryInfeasible}, nil
			}
		}
	}
	if err == nil {
		v, err = c.view(ctx, key)
	}
	if err != nil {
		return workers.Result{}, fmt.Errorf("claim %s: %w", key, err)
	}
	return c.lookAgain(v), nil
}

// lookAgain ends a turn. The node, or the end of its claim, may replace a state that this controller has written
// before the cache shows it, by the state before: then no change of the cache is the cause of a turn.
func (c *Controller) lookAgain(v view) workers.Result {
	return workers.Result{After: max(unseen.PauseForState(c.claims, v.claim), unseen.PauseForState(c.volumes, v.volume))}
}

// remember keeps the outcome of a call.
func (c *Controller) remember(key api.Key, claim *v1.PersistentVolumeClaim, size resource.Quantity, err error) {
	last, kind := c.attempts.Get(key, claim.UID), volume.KindOf(err)
	last.size, last.request, last.ended = size, requestOf(claim), time.Now()
	// A transient error is no news of an earlier call whose outcome is open.
	last.isSettled = kind == volume.Final || kind == volume.Transient && last.isSettled
	c.attempts.Set(key, claim.UID, last)
}

// record writes a larger size to the volume, and then the end of the expansion to the claim.
func (c *Controller) record(ctx context.Context, key api.Key, v view, result volume.ExpandResult) error {
	if patch, isNeeded := grow(v.claim, v.volume, result); isNeeded {
		if err := c.patchVolume(ctx, v.volume, patch); err != nil {
			return err
		}
	}
	if err := c.patchClaim(ctx, v.claim, success(v.claim, result)); err != nil {
		return err
	}
	c.reportSuccess(key, v.claim, result)
	return nil
}

// call calls the Expander and checks its result.
func (c *Controller) call(ctx context.Context, v view, name string, size resource.Quantity) (volume.ExpandResult, error) {
	if c.config.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.config.Timeout)
		defer cancel()
	}
	began := time.Now()
	result, err := c.safely(ctx, volume.ExpandRequest{
		Spec:    volume.NewSpecFromPersistentVolume(v.volume.DeepCopy(), false),
		NewSize: size.DeepCopy(),
		OldSize: v.claim.Status.Capacity.Storage().DeepCopy(),
	})
	if ctx.Err() != nil && volume.KindOf(err) == volume.Transient {
		err = volume.AsUncertain(err) // the call may have begun
	}
	if err == nil {
		err = checkResult(result, size)
	}
	c.reportDuration(name, time.Since(began), err)
	return result, err
}

// safely calls the Expander. A panic is an uncertain error.
func (c *Controller) safely(ctx context.Context, req volume.ExpandRequest) (result volume.ExpandResult, err error) {
	defer panics.AsUncertain(&err, c.config.Logger, "of", "Expander", "volume", req.Spec.Name())
	return c.config.Expander.Expand(ctx, req)
}

// checkResult returns an error for a size below the one that the Expander was asked for. What it has done
// is not known then.
func checkResult(result volume.ExpandResult, asked resource.Quantity) error {
	if err := quantity.CheckOf("the size of the expanded volume", &result.Size); err != nil {
		return volume.AsUncertain(err)
	}
	if result.Size.Cmp(asked) < 0 {
		return volume.AsUncertain(fmt.Errorf("the expanded volume has %s, less than %s", quantity.Text(&result.Size), quantity.Text(&asked)))
	}
	return nil
}

func isInfeasible(err error) bool {
	return volume.KindOf(err) == volume.Final && errors.Is(err, volume.ErrInfeasible)
}

func requestOf(claim *v1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[v1.ResourceStorage]
}
