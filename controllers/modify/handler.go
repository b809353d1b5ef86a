package modify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/panics"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mostSteps ends a turn in which other writers undo each step.
const mostSteps = 20

// errNoClass: the attributes class does not exist.
var errNoClass = errors.New("the attributes class does not exist")

// A turn is the handling of a claim. The zero value begins one.
type turn struct {
	// isProven: the API server has shown in this turn that the claim has the target. A cache may be so old
	// that the target was given up since.
	isProven bool
	isLost   bool // see view
}

// handle takes the steps for a claim until none is left.
func (c *Controller) handle(ctx context.Context, key api.Key) (workers.Result, error) {
	var t turn
	for range mostSteps {
		v, err := c.view(ctx, key)
		if err != nil {
			return workers.Result{}, err
		}
		if v.claim == nil {
			c.attempts.Forget(key)
			return workers.Result{}, nil
		}
		v.isLost = t.isLost
		step, class := decide(v)
		if step == stepNone {
			return c.lookAgain(v), nil
		}
		if c.config.Modifier.Name(v.volume) == "" {
			return workers.Result{}, nil
		}
		isLast, pause, err := c.take(ctx, &t, key, v, step, class)
		if err != nil {
			return workers.Result{}, fmt.Errorf("claim %s: %w", key, err)
		}
		if isLast {
			return workers.Result{After: pause}, nil
		}
	}
	return workers.Result{}, fmt.Errorf("claim %s: no end after %d steps", key, mostSteps)
}

// lookAgain ends a turn. The user may replace a state that a call has shown, before the cache shows it, by the state
// before: then no change of the cache is the cause of a turn.
func (c *Controller) lookAgain(v view) workers.Result {
	return workers.Result{After: max(unseen.PauseForState(c.claims, v.claim), unseen.PauseForState(c.volumes, v.volume))}
}

// take takes a step. It reports whether it is the last one of the turn, and the pause before the next turn.
func (c *Controller) take(ctx context.Context, t *turn, key api.Key, v view, s step, class string) (isLast bool, pause time.Duration, err error) {
	switch s {
	case stepClear:
		return false, 0, c.patchClaim(ctx, v.claim, cleared(v.claim))
	case stepBegin:
		if pause := c.pause(key, v, class); pause > 0 {
			return true, pause, nil
		}
		t.isProven = true
		pause, err := c.begin(ctx, key, v, class)
		return pause > 0, pause, err
	}
	if !t.isProven {
		t.isProven = true
		_, err = c.claims.Live(ctx, key)
		return false, 0, err
	}
	parameters, err := c.parameters(ctx, key, v, class)
	if errors.Is(err, errNoClass) && !t.isLost {
		t.isLost = true
		return false, 0, nil
	}
	if err != nil {
		c.reportFailure(key, v.claim, class, err)
		return true, 0, err
	}
	pause, err = c.change(ctx, key, v, class, parameters)
	return pause > 0, pause, err // after a success the claim may name another class
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
		return v, fmt.Errorf("read volume %q: %w", brief.Name(v.claim.Spec.VolumeName), err)
	}
	last := c.attempts.Get(key, v.claim.UID)
	v.isSettled = last.isSettled && last.target == stateOf(v.claim).TargetVolumeAttributesClassName
	v.isClean = last.isClean
	return v, nil
}

// pause returns the rest of the pause after an infeasible class.
func (c *Controller) pause(key api.Key, v view, class string) time.Duration {
	last := c.attempts.Get(key, v.claim.UID)
	if stateOf(v.claim).Status != infeasible || last.target != class || last.wanted != value(v.claim.Spec.VolumeAttributesClassName) {
		return 0
	}
	return time.Until(last.ended.Add(c.config.RetryInfeasible))
}

// parameters returns the parameters of a class: those of the API server, or, for a class that was deleted
// while a call for it is open, those of the call.
func (c *Controller) parameters(ctx context.Context, key api.Key, v view, name string) (map[string]string, error) {
	class, err := c.config.Cluster.VolumeAttributesClasses().Get(ctx, name, metav1.GetOptions{})
	driver := c.config.Modifier.Name(v.volume)
	switch last := c.attempts.Get(key, v.claim.UID); {
	case apierrors.IsNotFound(err) && last.target == name && last.parameters != nil:
		return last.parameters, nil
	case apierrors.IsNotFound(err):
		return nil, errNoClass
	case err != nil:
		return nil, fmt.Errorf("read attributes class %q: %w", brief.Name(name), err)
	case class.DriverName != driver:
		return nil, fmt.Errorf("the attributes class is of driver %q, and the volume of driver %q: %w", brief.Name(class.DriverName), driver, volume.ErrInfeasible)
	}
	return class.Parameters, nil
}

// begin writes the target and the state to a claim: Pending for a class that does not exist, Infeasible for
// one of another driver. A pause ends the turn.
func (c *Controller) begin(ctx context.Context, key api.Key, v view, class string) (pause time.Duration, err error) {
	if v.claim.Status.ModifyVolumeStatus == nil {
		last := c.attempts.Get(key, v.claim.UID)
		last.isClean = true
		c.attempts.Set(key, v.claim.UID, last)
	}
	_, err = c.parameters(ctx, key, v, class)
	switch isOpen := stateOf(v.claim).Status == inProgress && !v.isSettled; {
	case err == nil:
		if err := c.patchClaim(ctx, v.claim, begun(v.claim, class)); err != nil {
			return 0, err
		}
		if last := c.attempts.Get(key, v.claim.UID); last.target != class || last.wanted != class {
			c.announce(key, v.claim, v1.EventTypeNormal, reasonModifying, fmt.Sprintf("modifying volume %s by class %s", v.volume.Name, class))
		}
		return 0, nil
	case isOpen: // the claim keeps the record of the open call
	case errors.Is(err, errNoClass):
		err = errors.Join(err, c.patchClaim(ctx, v.claim, waiting(v.claim, class)))
	case isInfeasible(err):
		return c.fail(ctx, key, v, class, err)
	}
	c.reportFailure(key, v.claim, class, err)
	return 0, err
}

// change calls the Modifier and writes the outcome to the volume and to the claim.
func (c *Controller) change(ctx context.Context, key api.Key, v view, class string, parameters map[string]string) (pause time.Duration, err error) {
	err = c.call(ctx, v, class, parameters)
	c.remember(key, v.claim, class, parameters, err)
	if err == nil {
		return 0, c.record(ctx, key, v, class)
	}
	if volume.KindOf(err) == volume.Final {
		return c.fail(ctx, key, v, class, err)
	}
	c.reportFailure(key, v.claim, class, err)
	return 0, err
}

// fail writes a final error to the claim. It returns the pause after an infeasible class, and otherwise the
// error.
func (c *Controller) fail(ctx context.Context, key api.Key, v view, class string, err error) (pause time.Duration, _ error) {
	c.remember(key, v.claim, class, nil, err)
	c.reportFailure(key, v.claim, class, err)
	if err := c.patchClaim(ctx, v.claim, failed(v.claim, class, err)); err != nil {
		return 0, err
	}
	if isInfeasible(err) {
		return c.config.RetryInfeasible, nil
	}
	return 0, err
}

// remember keeps the outcome of a call.
func (c *Controller) remember(key api.Key, claim *v1.PersistentVolumeClaim, class string, parameters map[string]string, err error) {
	last, kind := c.attempts.Get(key, claim.UID), volume.KindOf(err)
	isSame := last.target == class
	last.isClean = last.isClean && err != nil && kind != volume.Uncertain
	last.target, last.wanted, last.ended = class, value(claim.Spec.VolumeAttributesClassName), time.Now()
	switch {
	case err == nil || kind == volume.Final:
		last.isSettled, last.parameters = err != nil, nil
	case kind == volume.Transient: // no news of an earlier call whose outcome is open
		last.isSettled = last.isSettled && isSame
		if !isSame {
			last.parameters = nil
		}
	default:
		last.isSettled, last.parameters = false, maps.Clone(parameters)
	}
	c.attempts.Set(key, claim.UID, last)
}

// record writes the class to the volume, and then the end of the change to the claim.
func (c *Controller) record(ctx context.Context, key api.Key, v view, class string) error {
	if value(v.volume.Spec.VolumeAttributesClassName) != class {
		if err := c.patchVolume(ctx, v.volume, class); err != nil {
			return err
		}
	}
	if err := c.patchClaim(ctx, v.claim, changed(v.claim, class)); err != nil {
		return err
	}
	c.announce(key, v.claim, v1.EventTypeNormal, reasonModified, fmt.Sprintf("modified volume %s by class %s", v.volume.Name, class))
	return nil
}

// call calls the Modifier.
func (c *Controller) call(ctx context.Context, v view, class string, parameters map[string]string) error {
	if c.config.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.config.Timeout)
		defer cancel()
	}
	began := time.Now()
	err := c.safely(ctx, Request{
		Claim: v.claim.DeepCopy(), Volume: v.volume.DeepCopy(), Class: class, Parameters: maps.Clone(parameters),
	})
	if ctx.Err() != nil && volume.KindOf(err) == volume.Transient {
		err = volume.AsUncertain(err) // the call may have begun
	}
	c.reportDuration(c.config.Modifier.Name(v.volume), time.Since(began), err)
	return err
}

// safely calls the Modifier. A panic is an uncertain error.
func (c *Controller) safely(ctx context.Context, req Request) (err error) {
	defer panics.AsUncertain(&err, c.config.Logger, "of", "Modifier", "volume", req.Volume.Name)
	return c.config.Modifier.Modify(ctx, req)
}

func isInfeasible(err error) bool {
	return volume.KindOf(err) == volume.Final && errors.Is(err, volume.ErrInfeasible)
}
