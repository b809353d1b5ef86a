package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mostSteps ends a turn whose steps change nothing.
const mostSteps = 20

// handleClaim takes the steps for a claim until none is left or a pause begins.
func (c *Controller) handleClaim(ctx context.Context, key claimKey) (workers.Result, error) {
	a := c.ofClaims.of(key)
	defer c.resumeReleases()
	defer func() { a.checked = nil }()
	for range mostSteps {
		v, err := c.viewClaim(ctx, key, a)
		if err != nil {
			return workers.Result{}, err
		}
		if c.isForGoneNodes() {
			c.ofClaims.forget(key)
			return workers.Result{}, c.leaveGoneNode(ctx, v)
		}
		now := time.Now()
		step, wait := decideClaim(v, now)
		if step == claimRelease {
			if wait = c.postponeRelease(key, v, a, now); wait > 0 {
				step = claimWait
			}
		}
		switch step {
		case claimForget:
			c.ofClaims.forget(key)
			c.postponed.remove(key)
			return workers.Result{After: unseen.PauseFor(c.volumes, v.volume)}, nil
		case claimWait:
			return workers.Result{After: cmp.Or(wait, unseen.PauseFor(c.volumes, v.volume))}, nil
		}
		if err := c.takeClaimStep(ctx, step, v, a); err != nil {
			return workers.Result{}, err
		}
	}
	return workers.Result{}, fmt.Errorf("claim %s: no end after %d steps", key.Key, mostSteps)
}

// viewClaim returns the newest known state of a claim and of all that belongs to it.
func (c *Controller) viewClaim(ctx context.Context, key claimKey, a *claimAttempt) (v claimView, err error) {
	v.rules = c.rules
	claim, err := c.claims.Get(ctx, key.Key)
	if err != nil {
		return v, fmt.Errorf("read claim %s: %w", key.Key, err)
	}
	if claim != nil && claim.UID == key.uid {
		v.claim, a.claim = claim, claim
	}
	a.observeMark(v, time.Now())
	v.attempt = *a
	if a.claim == nil {
		return v, nil
	}
	v.class = c.classOf(a.claim)
	if v.role = c.rules.roleFor(v.claim, v.class); v.role != foreign && !c.qualifies(ctx, v) {
		v.role = foreign
	}
	v.volume, err = c.volumes.Get(ctx, c.volumeKey(a.claim))
	if err != nil {
		return v, fmt.Errorf("read the volume of claim %s: %w", key.Key, err)
	}
	if a.object == objectIsLate && v.isStored() {
		a.policy = v.volume.Spec.PersistentVolumeReclaimPolicy
	}
	return v, nil
}

// qualifies reports whether the controller has a role for a claim. It discards what an earlier version has made for a
// claim of a volume populator.
func (c *Controller) qualifies(ctx context.Context, v claimView) bool {
	if c.isOfPopulator(ctx, v.claim) && (!v.hasGuard() || v.attempt.storage == storageAbsent) {
		return false
	}
	return c.config.Qualifier(ctx, v.claim)
}

// volumeKey returns the key of the volume that is provisioned for a claim.
func (c *Controller) volumeKey(claim *v1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Name: c.config.VolumeName(claim)}
}

// classOf returns the class of a claim, the default class for a claim without one, or nil.
func (c *Controller) classOf(claim *v1.PersistentVolumeClaim) *storagev1.StorageClass {
	name, isSet := storageclass.Named(claim)
	if !isSet {
		return storageclass.Default(c.classes.List())
	}
	class, _ := c.classes.Get(types.NamespacedName{Name: name})
	return class
}

// takeClaimStep takes a step and records its result in a.
func (c *Controller) takeClaimStep(ctx context.Context, step claimStep, v claimView, a *claimAttempt) error {
	switch step {
	case claimConfirm:
		return c.confirmClaim(ctx, a)
	case claimGuard:
		return c.guardClaim(ctx, v, a)
	case claimProvision:
		return c.provision(ctx, v, a)
	case claimStore:
		return c.storeVolume(ctx, v, a)
	case claimDiscard:
		return c.discardStorage(ctx, v, a)
	case claimMark:
		return c.endDiscard(ctx, v, a)
	case claimFind:
		return c.findVolume(ctx, v, a)
	case claimReschedule:
		p := objectpatch.Of(v.claim).OfVersion(v.claim).WithoutAnnotation(SelectedNodeAnnotation).WithoutFinalizer(ClaimFinalizer)
		return c.patchClaim(ctx, v.claim, p)
	case claimRelease:
		p := objectpatch.Of(v.claim).WithoutFinalizer(ClaimFinalizer)
		if v.isStored() { // the version has no mark that was not read
			p = p.OfVersion(v.claim)
		}
		if v.isRestored() {
			p = p.WithoutAnnotation(DiscardAnnotation)
		}
		return c.patchClaim(ctx, v.claim, p)
	}
	return fmt.Errorf("step %d of claim %s/%s is unknown", step, a.claim.Namespace, a.claim.Name)
}

// confirmClaim reads a claim that had the finalizer before this run from the API server: an earlier
// run may have called Provision, unless the claim is one for which no run does.
func (c *Controller) confirmClaim(ctx context.Context, a *claimAttempt) error {
	claim, err := c.claims.Live(ctx, keyOfClaim(a.claim).Key)
	if err != nil {
		return fmt.Errorf("read claim %s/%s: %w", a.claim.Namespace, a.claim.Name, err)
	}
	if claim == nil || claim.UID != a.claim.UID {
		return nil // the next view shows it
	}
	a.claim = claim
	if (claimView{claim: claim}).hasGuard() {
		a.isOurs, a.storage = true, storagePossible
		if c.checkClaim(claim) != nil && !c.mayHaveData(claim) {
			a.storage = storageAbsent
		}
	}
	return nil
}

// findVolume reads the object of a claim's volume that this run does not know to have created: its own
// creation may have taken effect and failed, or another controller has stored the object.
func (c *Controller) findVolume(ctx context.Context, v claimView, a *claimAttempt) error {
	stored, err := c.volumes.Live(ctx, c.volumeKey(a.claim))
	if err != nil {
		return fmt.Errorf("read the volume of claim %s/%s: %w", a.claim.Namespace, a.claim.Name, err)
	}
	if stored == nil || !belongsTo(stored, a.claim) {
		return nil // the next view shows the same
	}
	state, err := c.stateOf(ctx, stored, a.claim)
	if err != nil {
		return err
	}
	if isOtherStorage(stored, a.described) {
		return c.discardSecond(ctx, v, a)
	}
	a.object = state
	if a.described != nil {
		c.reportProvisioned(a)
		a.refusal = nil
	}
	return nil
}

// stateOf returns what an object proves. Storage is deleted only after its volume is released and its
// claim has ended. Neither is undone: if the API server shows that one of them is yet to come, so is
// the deletion. A claim with the finalizer has not ended, so only a run that shares its claims with
// another controller, or whose finalizer a user has removed, calls Provision for a late object again.
func (c *Controller) stateOf(ctx context.Context, stored *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) (objectState, error) {
	if stored.Status.Phase != v1.VolumeReleased {
		return objectCovers, nil
	}
	live, err := c.claims.Live(ctx, keyOfClaim(claim).Key)
	switch {
	case err != nil:
		return objectUnknown, fmt.Errorf("read claim %s/%s: %w", claim.Namespace, claim.Name, err)
	case live != nil && live.UID == claim.UID:
		return objectCovers, nil
	}
	return objectIsLate, nil
}

// guardClaim adds the finalizer to a claim whose options pass the checks: the finalizer means that
// Provision may have been called. It also sets the default class of a claim without one. The patch
// proves that the claim exists and is not being deleted.
func (c *Controller) guardClaim(ctx context.Context, v claimView, a *claimAttempt) error {
	o := outcome{inputs: v.inputs()}
	if o.options, _, o.err = c.optionsFor(ctx, v); o.err != nil {
		return c.recordOutcome(ctx, a, o)
	}
	a.checked = o.checked()
	p := objectpatch.Of(v.claim).OfVersion(v.claim)
	if c.rules.guardsClaims {
		p = p.WithFinalizer(ClaimFinalizer)
	}
	if _, isSet := storageclass.Named(v.claim); !isSet {
		p = p.WithClass(v.class.Name)
	}
	if err := c.patchClaim(ctx, v.claim, p); err != nil {
		return err
	}
	a.isOurs, a.storage = true, storageAbsent
	return nil
}

// patchClaim patches a claim. After a refusal the next view is that of the API server.
func (c *Controller) patchClaim(ctx context.Context, claim *v1.PersistentVolumeClaim, p objectpatch.Patch) error {
	data, err := p.Encode()
	if err != nil {
		return err
	}
	key := keyOfClaim(claim).Key
	if _, err = c.claims.Patch(ctx, key, types.StrategicMergePatchType, data); err == nil {
		return nil
	}
	if isRefusal(err) {
		_, readErr := c.claims.Live(ctx, key)
		err = errors.Join(err, readErr)
	}
	return fmt.Errorf("patch claim %s: %w", key, err)
}
