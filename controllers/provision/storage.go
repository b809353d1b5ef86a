package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/denial"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// provision calls Provision once and records the outcome.
func (c *Controller) provision(ctx context.Context, v claimView, a *claimAttempt) error {
	if a.began.IsZero() {
		a.began = time.Now()
		c.announce(a.claim, v1.EventTypeNormal, reasonProvisioning,
			fmt.Sprintf("%s provisions a volume for claim %s/%s", c.config.Name, a.claim.Namespace, a.claim.Name))
	}
	o := outcome{inputs: v.inputs(), mark: markOf(v.claim)}
	a.dropDescription() // the storage may be discarded
	a.hasDiscarded = false
	o.options, o.refusal, o.err = c.optionsFor(ctx, v)
	if o.err == nil {
		a.isOurs, o.called = true, true
		c.callProvisioner(ctx, v, a, &o)
	}
	if err := c.recordOutcome(ctx, a, o); err != nil {
		return err
	}
	if v.isStored() && o.err == nil {
		c.endRepeatedCall(v, a)
	}
	return nil
}

// endRepeatedCall ends a successful call of Provision for a stored volume, which describes the storage, unless it is in
// another one.
func (c *Controller) endRepeatedCall(v claimView, a *claimAttempt) {
	c.reportRefusedAgain(a)
	a.refusal = nil
	if !isOtherStorage(v.volume, a.described) {
		a.described = nil
	}
}

// callProvisioner calls Provision with the options of an outcome, and completes the outcome. A refusal of storage
// that may have data is an uncertain error: the storage stays.
func (c *Controller) callProvisioner(ctx context.Context, v claimView, a *claimAttempt, o *outcome) {
	var pv *v1.PersistentVolume
	var refused error
	c.config.Logger.Debug("calling Provision", "claim", api.KeyOf(a.claim), "volume", o.options.PVName, "mayExist", o.options.MayExist)
	o.err = c.call(ctx, func(ctx context.Context) (err error) {
		pv, refused, err = callProvision(ctx, c.config.Provisioner, copyOf(o.options))
		return err
	})
	if o.err != nil {
		return
	}
	o.described, a.refusal = c.rules.describe(o.options, pv)
	a.refusal = cmp.Or(o.refusal, refused, a.refusal)
	if a.refusal != nil && c.mayHaveData(a.claim) && !v.isStored() {
		o.described, o.err, a.refusal = nil, volume.AsUncertain(a.refusal), nil
		return
	}
	o.described.Spec.PersistentVolumeReclaimPolicy = cmp.Or(a.policy, o.described.Spec.PersistentVolumeReclaimPolicy)
}

// recordOutcome records the outcome of an attempt and reports a failure.
func (c *Controller) recordOutcome(ctx context.Context, a *claimAttempt, o outcome) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // no later step of this run needs the outcome
	}
	isNews := a.record(o, time.Now(), c.rules)
	if o.err != nil {
		c.reportFailedProvision(a, o.err, isNews)
	}
	return nil
}

// copyOf returns options that the Provisioner may change.
func copyOf(o Options) Options {
	o.PVC, o.StorageClass, o.SelectedNode = o.PVC.DeepCopy(), *o.StorageClass.DeepCopy(), o.SelectedNode.DeepCopy()
	o.VolumeAttributesClass.Parameters = maps.Clone(o.VolumeAttributesClass.Parameters)
	return o
}

// call makes a call of the Provisioner within the limits of the storage. A panic counts as a failure.
func (c *Controller) call(ctx context.Context, f func(context.Context) error) error {
	if err := c.limiter.acquire(ctx); err != nil {
		return volume.AsTransient(err)
	}
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	hasFailed := true
	defer func() { c.limiter.release(hasFailed) }()
	err := f(ctx)
	kind := kindOf(err)
	hasFailed = kind == volume.Transient || kind == volume.Uncertain
	return err
}

// delete calls Delete.
func (c *Controller) delete(ctx context.Context, pv *v1.PersistentVolume) error {
	c.config.Logger.Debug("calling Delete", "volume", pv.Name)
	return callDelete(ctx, c.config.Provisioner, pv)
}

// withTimeout returns a context that ends after Config.Timeout.
func (c *Controller) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.config.Timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.config.Timeout)
}

// storeVolume creates the object of a provisioned volume, and tries for as long as the API server
// may accept it.
func (c *Controller) storeVolume(ctx context.Context, v claimView, a *claimAttempt) error {
	_, err := c.volumes.Create(ctx, a.described)
	switch {
	case err == nil:
		a.object = objectCovers
		c.reportProvisioned(a)
		return nil
	case isRefused(err) && c.mayHaveData(a.claim): // the storage may have data
		c.failStore(v, a, fmt.Errorf("store volume %q: %w", a.described.Name, brief.Of(err)))
		return nil
	case isRefused(err):
		a.refusal = fmt.Errorf("store volume %q: %w", a.described.Name, brief.Of(err))
		return nil
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("store volume %q: %w", a.described.Name, err)
	}
	stored, err := c.volumes.Live(ctx, c.volumeKey(a.claim))
	switch {
	case err != nil:
		return fmt.Errorf("read volume %q: %w", a.described.Name, err)
	case stored == nil, belongsTo(stored, a.claim): // the next view shows the same
		return nil
	}
	c.failStore(v, a, nameTaken(stored.Name)) // the storage may be that of the other claim
	return nil
}

// failStore records that the object is not stored, and keeps the storage: Provision is called again after a pause.
func (c *Controller) failStore(v claimView, a *claimAttempt, err error) {
	pauses := c.rules.provisionPauses
	pauses.threshold = 0
	a.dropDescription()
	c.reportFailedProvision(a, err, a.retry.fail(time.Now(), v.inputs(), err.Error(), pauses))
}

// isRefusal reports whether the API server refuses a write because of its content, so that the same
// write fails again.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// isRefused reports whether the API server refuses an object because of its content, also by admission. A missing right
// is no refusal: an administrator will grant it.
func isRefused(err error) bool { return isRefusal(err) || denial.IsByAdmission(err) }

// discardStorage deletes storage for which no object can be stored. With the permission for the call,
// directly before the call, it marks the claim and then confirms that no object exists and that the claim is not
// bound: another controller that stores an object later finds the mark.
func (c *Controller) discardStorage(ctx context.Context, v claimView, a *claimAttempt) error {
	var stored *v1.PersistentVolume
	var isBound bool
	err := c.call(ctx, func(ctx context.Context) (err error) {
		if isBound, err = c.beginDiscard(ctx, v, a); err != nil {
			return volume.AsTransient(err)
		}
		if stored, err = c.volumes.Live(ctx, c.volumeKey(a.claim)); err != nil {
			return volume.AsTransient(fmt.Errorf("read volume %q: %w", a.described.Name, err))
		}
		if stored != nil || isBound {
			return nil
		}
		a.endsDiscard = true // also after a failure: the call may have had its effect
		return c.delete(ctx, a.described)
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case stored != nil: // by another controller: the storage is in use, unless it is a second one
		a.refusal, a.endsDiscard = nil, true
		if !isOtherStorage(stored, a.described) {
			a.described = nil
		}
		return nil
	case err == nil && isBound: // the storage may have data
		a.endsDiscard = true
		c.failStore(v, a, a.refusal)
		a.refusal = nil
		return nil
	}
	pauses, failure := c.rules.infeasible, a.refusal
	if err == nil || isIgnored(err) {
		a.storage, a.described, a.refusal, a.options = storageAbsent, nil, nil, nil
		if errors.Is(failure, volume.ErrReschedule) { // by the check of the next attempt, before a call
			pauses = c.rules.provisionPauses
		}
	} else {
		pauses = pauseRule{first: c.config.Backoff, most: c.config.MaxBackoff}
		failure = errors.Join(a.refusal, fmt.Errorf("delete the storage: %w", err))
	}
	c.reportFailedProvision(a, failure, a.retry.fail(time.Now(), v.inputs(), failure.Error(), pauses))
	return nil
}
