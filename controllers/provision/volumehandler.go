package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// handleVolume takes the steps for a volume until none is left or a pause begins.
func (c *Controller) handleVolume(ctx context.Context, key api.Key) (workers.Result, error) {
	for range mostSteps {
		pv, err := c.volumes.Get(ctx, key)
		if err != nil {
			return workers.Result{}, fmt.Errorf("read volume %q: %w", key.Name, err)
		}
		if pv == nil {
			c.ofVolumes.forget(key.Name)
			return workers.Result{}, nil
		}
		a := c.ofVolumes.of(pv)
		v, err := c.viewVolume(ctx, pv, a)
		if err != nil {
			return workers.Result{}, err
		}
		step, wait := decideVolume(v, time.Now())
		switch step {
		case volumeForget:
			c.ofVolumes.forget(key.Name)
			return workers.Result{After: v.pause}, nil
		case volumeWait:
			return workers.Result{After: wait}, nil
		}
		if err := c.takeVolumeStep(ctx, step, v, a); err != nil {
			return workers.Result{}, err
		}
	}
	return workers.Result{}, fmt.Errorf("volume %q: no end after %d steps", key.Name, mostSteps)
}

// viewVolume returns the newest known state of all that a decision about a volume depends on.
func (c *Controller) viewVolume(ctx context.Context, pv *v1.PersistentVolume, a *volumeAttempt) (v volumeView, err error) {
	v = volumeView{rules: c.rules, volume: pv, attempt: *a}
	ref := pv.Spec.ClaimRef
	if !c.rules.owns(pv) || pv.Status.Phase != v1.VolumeReleased || ref == nil {
		return v, nil
	}
	claim, err := c.claimOf(ctx, ref)
	if claim != nil {
		v.claimLives, v.pause = true, unseen.PauseFor(c.claims, claim)
		err = c.awaitEnd(ctx, pv)
	}
	v.permitted = c.config.DeletionGuard(ctx, pv)
	return v, err
}

// claimOf returns the claim with the UID of a reference, or nil. It calls the API server only if the state of
// the claim is open.
func (c *Controller) claimOf(ctx context.Context, ref *v1.ObjectReference) (*v1.PersistentVolumeClaim, error) {
	claim, err := c.claims.Get(ctx, api.Key{Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return nil, fmt.Errorf("read claim %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if claim == nil || claim.UID != ref.UID {
		return nil, nil
	}
	return claim, nil
}

// claimLives reports whether the claim with the UID of a reference exists.
func (c *Controller) claimLives(ctx context.Context, ref *v1.ObjectReference) (bool, error) {
	claim, err := c.claimOf(ctx, ref)
	return claim != nil, err
}

// takeVolumeStep takes a step and records its result in a.
func (c *Controller) takeVolumeStep(ctx context.Context, step volumeStep, v volumeView, a *volumeAttempt) error {
	pv := v.volume
	switch step {
	case volumeGuard:
		return c.patchVolume(ctx, pv, objectpatch.Of(pv).OfVersion(pv).WithFinalizer(c.rules.volumeFinalizer))
	case volumeRelease:
		return c.patchVolume(ctx, pv, objectpatch.Of(pv).OfVersion(pv).WithoutFinalizer(c.rules.guardNames()...))
	case volumeReclaim:
		return c.reclaim(ctx, v, a)
	case volumeRemove:
		return c.removeVolume(ctx, pv)
	}
	return fmt.Errorf("step %d of volume %q is unknown", step, pv.Name)
}

// errNotReleased ends the reclaiming of a volume whose cached state is old.
var errNotReleased = errors.New("the volume is not to be reclaimed by the state at the API server")

// errNameless is the reason why storage is kept: no read shows that no claim with the UID exists.
var errNameless = errors.New("the reference to the claim has no name: restore it, or delete the storage by hand and make the policy Retain")

// confirmedFor is the time for which a confirmation that a volume has no users holds. A volume without a
// claim receives no users as long as its reference does not change: this limit is for users that
// ignore the claim.
const confirmedFor = time.Minute

// reclaim deletes the storage of a volume if the API server confirms that the volume is to be
// reclaimed and not in use. It reads the users before it waits for the permission of the call, and the
// volume with the permission, directly before the call.
func (c *Controller) reclaim(ctx context.Context, v volumeView, a *volumeAttempt) error {
	pv, began := v.volume, time.Now()
	err := c.confirmUnused(ctx, pv)
	if err == nil {
		confirmed := time.Now()
		err = c.call(ctx, func(ctx context.Context) (err error) {
			if time.Since(confirmed) > confirmedFor {
				err = c.confirmUnused(ctx, pv)
			}
			if err == nil {
				pv, err = c.confirmReleased(ctx, pv, a)
			}
			if err != nil {
				return err
			}
			return c.delete(ctx, pv)
		})
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNotReleased):
		return nil // the next view shows the same
	case err != nil:
		c.recordFailedDelete(v, a, err)
		return nil
	}
	*a = volumeAttempt{uid: pv.UID, isDeleted: true}
	c.reportDeleted(pv, began)
	return nil
}

// confirmUnused reads the claim and the users of a volume from the API server, within Config.Timeout.
func (c *Controller) confirmUnused(ctx context.Context, pv *v1.PersistentVolume) error {
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	defer c.users.begin()()
	ref := pv.Spec.ClaimRef
	if ref.Namespace == "" || ref.Name == "" {
		return errNameless
	}
	key := api.Key{Namespace: ref.Namespace, Name: ref.Name}
	claim, isShared, err := c.users.claim(ctx, key)
	if err == nil && (!isShared || claim != nil && claim.UID == ref.UID) { // later views have the result
		claim, err = c.claims.Live(ctx, key)
	}
	switch {
	case err != nil:
		return fmt.Errorf("read claim %s/%s: %w", ref.Namespace, ref.Name, err)
	case claim != nil && claim.UID == ref.UID:
		return errNotReleased
	}
	return c.users.check(ctx, pv, claim)
}

// confirmReleased reads a volume from the API server and decides again. No call to the API server
// follows the read.
func (c *Controller) confirmReleased(ctx context.Context, pv *v1.PersistentVolume, a *volumeAttempt) (*v1.PersistentVolume, error) {
	lives, err := c.claimLives(ctx, pv.Spec.ClaimRef)
	if err != nil {
		return nil, err
	}
	live, err := c.volumes.Live(ctx, api.KeyOf(pv))
	if err != nil {
		return nil, fmt.Errorf("read volume %q: %w", pv.Name, err)
	}
	if live == nil || live.UID != pv.UID || live.Spec.ClaimRef == nil || *live.Spec.ClaimRef != *pv.Spec.ClaimRef {
		return nil, errNotReleased
	}
	v := volumeView{rules: c.rules, volume: live, claimLives: lives, permitted: c.config.DeletionGuard(ctx, live), attempt: *a}
	if step, _ := decideVolume(v, time.Now()); step != volumeReclaim {
		return nil, errNotReleased
	}
	return live, nil
}

// ignoredFor is the time that another provisioner of the name has for a volume that this one ignores. Then an event says
// that nobody deletes its storage.
const ignoredFor = 5 * time.Minute

// recordFailedDelete records and reports that the storage was not deleted.
func (c *Controller) recordFailedDelete(v volumeView, a *volumeAttempt, err error) {
	pauses := c.rules.deletePauses
	switch {
	case isIgnored(err):
		// The second call announces, and ends the calls.
		pauses = pauseRule{first: ignoredFor, most: ignoredFor, threshold: 2, kind: wasIgnored}
	case errors.As(err, new(*inUseError)):
		pauses.threshold, pauses.kind = 0, wasInUse
	}
	isNews := a.retry.fail(time.Now(), v.inputs(), err.Error(), pauses)
	switch {
	case !isIgnored(err):
		c.reportFailedDelete(v.volume, err, isNews)
	case a.retry.gaveUp:
		c.config.Logger.Warn("no provisioner has deleted the storage", "volume", v.volume.Name, "err", err)
		c.announce(v.volume, v1.EventTypeWarning, reasonFailedDelete, fmt.Sprintf("no provisioner has deleted the storage: %v", err))
	}
}

// removeVolume deletes the object of a volume whose storage is deleted, and removes the finalizer.
func (c *Controller) removeVolume(ctx context.Context, pv *v1.PersistentVolume) error {
	if pv.DeletionTimestamp == nil {
		err := c.volumes.Delete(ctx, pv, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete volume %q: %w", pv.Name, err)
		}
	}
	if !(volumeView{rules: c.rules, volume: pv}).hasGuard() {
		return nil
	}
	err := c.patchVolume(ctx, pv, objectpatch.Of(pv).WithoutFinalizer(c.rules.guardNames()...))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// patchVolume patches a volume. After a refusal the next view is that of the API server.
func (c *Controller) patchVolume(ctx context.Context, pv *v1.PersistentVolume, p objectpatch.Patch) error {
	data, err := p.Encode()
	if err != nil {
		return err
	}
	key := api.KeyOf(pv)
	if _, err = c.volumes.Patch(ctx, key, types.StrategicMergePatchType, data); err == nil {
		return nil
	}
	if isRefusal(err) {
		_, readErr := c.volumes.Live(ctx, key)
		err = errors.Join(err, readErr)
	}
	return fmt.Errorf("patch volume %q: %w", key.Name, err)
}
