package bind

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/bind/internal/fit"
	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// mostSteps ends a turn whose steps change nothing. A rejection of a volume and the search for the next one do not count.
const mostSteps = 20

// rivalPause is the pause of a claim that has rejected the volumes of rivals, before it looks for a volume again. The
// change of a rival in the cache ends the pause; the cache may never have had the rival.
const rivalPause = time.Minute

// A claimTurn is the memory of a turn of a claim's worker.
type claimTurn struct {
	isSearched bool
	isVerified bool
	sole       string          // the version of the volume before its rivals were read
	choice     string          // the volume that is reserved in memory
	version    string          // of choice in the index
	rejected   map[string]bool // the volumes that the claim has chosen in vain
	fresh      string          // the named volume that was read from the API server
	uid        types.UID
}

// handleClaim takes the steps for a claim until none is left. The claim waits afterwards if this turn has
// searched the index in vain.
func (c *Controller) handleClaim(ctx context.Context, key api.Key) (workers.Result, error) {
	c.busy.Add(1)
	defer c.endWork()
	turn := &claimTurn{}
	defer c.endTurn(turn, c.woken.remove(key))
	c.index.StopWaiting(key)
	for steps := 0; steps < mostSteps+2*len(turn.rejected); steps++ {
		v, err := c.viewClaim(ctx, key, turn)
		if err != nil {
			return workers.Result{}, err
		}
		step, event := decideClaim(v)
		if step == claimForget {
			c.index.StopWaiting(key)
			c.announced.forget(key)
			c.finishing.remove(turn.uid)
			c.claimants.forgetName(key) // the answer to a patch may have come after the end of the claim
			return workers.Result{}, nil
		}
		if turn.choice != "" && v.rival != nil {
			turn.reject(&c.index)
			continue
		}
		if step != claimHold {
			if err := c.takeClaimStep(ctx, step, v, turn); err != nil {
				return workers.Result{}, fmt.Errorf("claim %s: %w", key, err)
			}
		}
		c.announce(key, v.claim, event)
		switch {
		case step == claimHold && len(turn.rejected) > 0: // a rival becomes Lost, or keeps its volume
			return workers.Result{After: rivalPause}, nil
		case step == claimHold:
			return workers.Result{After: max(unseen.PauseFor(c.volumes, v.volume), unseen.PauseFor(c.claims, v.rival))}, nil
		}
	}
	return workers.Result{}, fmt.Errorf("claim %s: no end after %d steps", key, mostSteps)
}

// endWork ends the work of one worker. The volumes that wait for the end of all work have their turns.
func (c *Controller) endWork() {
	c.busy.Add(-1)
	if !c.isBusy() {
		c.resumePostponed()
	}
}

// isBusy reports whether claims are being bound.
func (c *Controller) isBusy() bool { return c.claimPool.Len() > 0 || c.busy.Load() > 0 }

// endTurn ends the reservation of a claim. The volumes that the claim has not tried wake other claims.
func (c *Controller) endTurn(turn *claimTurn, wokenBy []string) {
	c.release(turn.uid)
	for _, volume := range wokenBy {
		if !turn.rejected[volume] {
			c.offer(volume)
		}
	}
}

// release ends the reservation of a claim, and offers the volume to others.
func (c *Controller) release(claim types.UID) {
	if free := c.index.Release(claim); free != "" {
		c.offer(free)
	}
}

// viewClaim returns the newest known state of a claim and of all that belongs to it.
func (c *Controller) viewClaim(ctx context.Context, key api.Key, turn *claimTurn) (v claimView, err error) {
	claim, err := c.claims.Get(ctx, key)
	if err != nil {
		return v, fmt.Errorf("read claim %s: %w", key, err)
	}
	if claim == nil {
		return v, nil
	}
	if turn.uid != claim.UID {
		c.release(turn.uid)
		c.index.StopWaiting(key)
		*turn = claimTurn{uid: claim.UID}
	}
	v.claim = claim
	if v.volume, v.leaving, err = c.volumeOf(ctx, claim, turn); err != nil {
		return v, err
	}
	v.isSearched, v.isVerified = turn.isSearched, turn.isVerified
	v.isFresh = turn.fresh != "" && turn.fresh == claim.Spec.VolumeName
	if v.volume != nil {
		version := v.volume.ResourceVersion
		v.isSole = turn.sole == version || c.finishing.has(claim.UID, version)
		if v.rival, err = c.rivalOf(ctx, claim, v.volume); err != nil {
			return v, err
		}
	}
	if name := className(claim); name != "" {
		v.class, _ = c.classes.Get(api.Key{Name: name})
	} else {
		v.defaultClass = storageclass.Default(c.classes.List())
	}
	v.provisions = v.class != nil && c.provisions(v.class.Provisioner)
	v.consumers, err = c.consumersOf(v)
	return v, err
}

// volumeOf returns the volumes for claimView.volume and claimView.leaving.
func (c *Controller) volumeOf(ctx context.Context, claim *v1.PersistentVolumeClaim, turn *claimTurn) (chosen, leaving *v1.PersistentVolume, err error) {
	if claim.Spec.VolumeName != "" {
		chosen, err = c.volume(ctx, claim.Spec.VolumeName)
		return chosen, nil, err
	}
	for _, name := range c.index.Referring(api.KeyOf(claim)) {
		pv, err := c.volume(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if pv == nil || !refersTo(pv, claim) {
			continue
		}
		err = checkMatch(claim, pv)
		if err == nil && (chosen == nil || isReservedFor(pv, claim) && !isReservedFor(chosen, claim)) {
			chosen = pv
		}
		if err != nil && pv.DeletionTimestamp != nil && isReservedFor(pv, claim) {
			leaving = pv
		}
	}
	if chosen != nil || turn.choice == "" {
		return chosen, leaving, nil
	}
	chosen, err = c.confirmChoice(ctx, claim, turn)
	return chosen, leaving, err
}

// confirmChoice returns the newest state of the volume that is reserved in memory. The index may have been
// filled from an older state: then the index is searched again.
func (c *Controller) confirmChoice(ctx context.Context, claim *v1.PersistentVolumeClaim, turn *claimTurn) (*v1.PersistentVolume, error) {
	pv, err := c.volume(ctx, turn.choice)
	if err != nil {
		return nil, err
	}
	if pv != nil && pv.Spec.ClaimRef == nil && fit.IsFree(pv) && checkMatch(claim, pv) == nil {
		return pv, nil
	}
	choice, version := turn.choice, turn.version
	turn.reject(&c.index)
	if pv == nil {
		c.index.Delete(choice)
	} else if c.index.Set(pv) && pv.ResourceVersion != version {
		c.offer(choice) // a newer state, which other claims have not rejected
	}
	return nil, nil
}

// reject ends the reservation of a claim for a volume that it cannot receive now. The next search leaves it
// out. The volume is not offered: two waiting claims would wake each other with it for ever.
func (t *claimTurn) reject(index *fit.Index) {
	if t.rejected == nil {
		t.rejected = map[string]bool{}
	}
	t.rejected[t.choice] = true
	index.Release(t.uid)
	t.choice, t.isSearched = "", false
}

// volume returns the newest known state of a volume, or nil.
func (c *Controller) volume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	pv, err := c.volumes.Get(ctx, api.Key{Name: name})
	if err != nil {
		return nil, fmt.Errorf("read volume %q: %w", name, err)
	}
	return pv, nil
}

// rivalOf returns another claim that has been bound to a volume, or nil. A Lost one is a rival only of claims
// that have not been bound, and only while the volume has no reference: the volume has its data. Each of two
// claims that are bound to a volume at the same time is written before it reads the other one: one at least
// sees the other, and waits.
func (c *Controller) rivalOf(ctx context.Context, of *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) (*v1.PersistentVolumeClaim, error) {
	countsLost := pv.Spec.ClaimRef == nil && !has(of, BindCompletedAnnotation)
	return c.findOwner(ctx, pv.Name, countsLost, func(claim *v1.PersistentVolumeClaim) bool {
		return api.KeyOf(claim) != api.KeyOf(of) && (countsLost || claim.Status.Phase != v1.ClaimLost)
	})
}

// ownerOf returns a claim that has been bound to a volume, or nil.
func (c *Controller) ownerOf(ctx context.Context, volume string) (*v1.PersistentVolumeClaim, error) {
	return c.findOwner(ctx, volume, true, func(*v1.PersistentVolumeClaim) bool { return true })
}

// findOwner returns a claim that has been bound to a volume and is accepted, or nil. Lost claims count only with withLost.
func (c *Controller) findOwner(ctx context.Context, volume string, withLost bool, accepts func(*v1.PersistentVolumeClaim) bool) (*v1.PersistentVolumeClaim, error) {
	for _, key := range c.claimants.boundTo(volume, withLost) {
		claim, err := c.claims.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("read claim %s: %w", key, err)
		}
		if claim != nil && claim.Spec.VolumeName == volume && hasBeenBound(claim) && accepts(claim) {
			return claim, nil
		}
	}
	return nil, nil
}

// takeClaimStep takes a step and records its result in turn.
func (c *Controller) takeClaimStep(ctx context.Context, step claimStep, v claimView, turn *claimTurn) error {
	claim, pv := v.claim, v.volume
	switch step {
	case claimConfirm:
		_, err := c.volumes.Live(ctx, api.Key{Name: claim.Spec.VolumeName})
		if err == nil {
			turn.fresh = claim.Spec.VolumeName
		}
		return err
	case claimVerify:
		live, err := c.claims.Live(ctx, api.KeyOf(claim))
		turn.isVerified = err == nil && live != nil && live.UID == claim.UID
		return err
	case claimFindRivals:
		turn.sole = pv.ResourceVersion
		return c.readRivals(ctx, pv.Name, api.KeyOf(claim))
	case claimSearch:
		turn.isSearched = true
		if found := c.index.ReserveExcept(claim, turn.rejected); found != nil {
			turn.choice, turn.version = found.Name, found.ResourceVersion
		}
		return nil
	case claimReserve:
		return c.patchVolume(ctx, pv, referencePatch(pv, claim))
	case claimUnbind:
		return c.patchVolume(ctx, cmp.Or(v.leaving, pv), freePatch(cmp.Or(v.leaving, pv)))
	case claimBind:
		return c.patchClaim(ctx, claim, namePatch(claim, pv))
	case claimBindPhase:
		written, err := c.writeVolume(ctx, pv, phasePatch(pv, v1.VolumeBound, ""))
		if written != nil && claim.Status.Phase != v1.ClaimBound {
			c.finishing.add(claim.UID, written.ResourceVersion)
		}
		return err
	case claimStatus:
		written, err := c.writeClaim(ctx, claim, patchOf(claim, "status", boundStatus(claim, pv)).ofVersion(claim))
		if written != nil {
			c.finishing.remove(claim.UID)
		}
		return err
	case claimReset:
		return c.patchClaim(ctx, claim, patchOf(claim, "status", unboundStatus(claim)).ofVersion(claim))
	case claimLose:
		return c.patchClaim(ctx, claim, patchOf(claim, "status", lostStatus(claim)).ofVersion(claim))
	case claimClass:
		return c.assignClass(ctx, v, turn)
	case claimRequest:
		annotations := fields{provision.ProvisionerAnnotation: v.class.Provisioner, provision.BetaProvisionerAnnotation: v.class.Provisioner}
		return c.patchClaim(ctx, claim, patchOf(claim, "spec", nil).annotated(annotations))
	}
	return fmt.Errorf("step %d is unknown", step)
}

// assignClass writes the default class to a claim. The claim is then searched for in the class.
func (c *Controller) assignClass(ctx context.Context, v claimView, turn *claimTurn) error {
	patched, err := c.writeClaim(ctx, v.claim, patchOf(v.claim, "spec", fields{"storageClassName": v.defaultClass.Name}))
	c.config.Metrics.Add(RetroactiveClassTotal, 1)
	if patched == nil {
		c.config.Metrics.Add(RetroactiveClassErrorsTotal, 1)
		return err
	}
	c.index.StopWaiting(api.KeyOf(v.claim))
	turn.isSearched = false
	return nil
}

// patchClaim patches a claim. After a refusal the next view is that of the API server.
func (c *Controller) patchClaim(ctx context.Context, claim *v1.PersistentVolumeClaim, p patch) error {
	_, err := c.writeClaim(ctx, claim, p)
	return err
}

// writeClaim patches a claim as patchClaim does, and returns the result. Nil: the claim was not patched.
func (c *Controller) writeClaim(ctx context.Context, claim *v1.PersistentVolumeClaim, p patch) (*v1.PersistentVolumeClaim, error) {
	data, err := p.encode()
	if err != nil {
		return nil, err
	}
	key := api.KeyOf(claim)
	patched, err := c.claims.Patch(ctx, key, types.StrategicMergePatchType, data, p.subresources()...)
	switch {
	case err == nil:
		c.claimants.set(patched)
		return patched, nil
	case apierrors.IsNotFound(err):
		return nil, nil // the next view reads the claim from the API server
	case apierrors.IsInvalid(err):
		_, err = c.claims.Live(ctx, key)
	}
	return nil, err
}

// patchVolume patches a volume, unless its newest known state is another one than pv: then the next view
// shows it.
func (c *Controller) patchVolume(ctx context.Context, pv *v1.PersistentVolume, p patch) error {
	_, err := c.writeVolume(ctx, pv, p)
	return err
}

// writeVolume patches a volume as patchVolume does, and returns the result. Nil: the volume was not patched.
func (c *Controller) writeVolume(ctx context.Context, pv *v1.PersistentVolume, p patch) (*v1.PersistentVolume, error) {
	data, err := p.encode()
	if err != nil {
		return nil, err
	}
	unlock, err := c.locks.Lock(ctx, pv.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	newest, err := c.volume(ctx, pv.Name)
	if err != nil || newest == nil || newest.UID != pv.UID || newest.ResourceVersion != pv.ResourceVersion {
		return nil, err
	}
	patched, err := c.volumes.Patch(ctx, api.KeyOf(pv), types.StrategicMergePatchType, data, p.subresources()...)
	switch {
	case err == nil:
		if c.index.Set(patched) {
			c.offer(patched.Name)
		}
		return patched, nil
	case apierrors.IsNotFound(err):
		return nil, nil // the next view reads the volume from the API server
	}
	return nil, err
}
