package bind

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// handleVolume takes the steps for a volume until none is left.
func (c *Controller) handleVolume(ctx context.Context, key api.Key) (workers.Result, error) {
	var confirmed types.UID // of a claim that is gone
	read := ""              // the version of the volume before its owners were read
	for range mostSteps {
		v, err := c.viewVolume(ctx, key)
		if err != nil {
			return workers.Result{}, err
		}
		v.isConfirmed = confirmed != "" && v.volume != nil && v.volume.Spec.ClaimRef != nil && v.volume.Spec.ClaimRef.UID == confirmed
		v.isRead = v.volume != nil && v.volume.ResourceVersion == read
		step, event := decideVolume(v)
		switch step {
		case volumeForget:
			c.announced.forget(key)
			c.foreign.forget(key)
			return workers.Result{}, nil
		case volumeRecycle:
			c.recyclePool.AddReplay(key)
			return workers.Result{}, nil
		case volumeClaim:
			if v.volume.Spec.ClaimRef == nil {
				c.claimPool.Add(api.KeyOf(v.owner))
			} else {
				c.claimPool.Add(referenceKey(v.volume))
			}
			return workers.Result{After: unseen.PauseFor(c.claims, v.claim)}, nil
		case volumeHold:
			c.announceMismatch(key, v, event)
			return workers.Result{After: unseen.PauseFor(c.claims, v.claim)}, nil
		case volumeAvailable:
			if pause := c.postponeAvailable(key, v.volume); pause > 0 {
				return workers.Result{After: pause}, nil
			}
		case volumeFindOwner:
			read = v.volume.ResourceVersion
			if err := c.readRivals(ctx, key.Name, api.Key{}); err != nil {
				return workers.Result{}, err
			}
			continue
		case volumeConfirm:
			isGone, err := c.confirmGone(ctx, v.volume)
			if err != nil {
				return workers.Result{}, err
			}
			if isGone {
				confirmed = v.volume.Spec.ClaimRef.UID
			}
			continue
		}
		if err := c.takeVolumeStep(ctx, step, v, event); err != nil {
			return workers.Result{}, fmt.Errorf("volume %q: %w", key.Name, err)
		}
		c.announce(key, v.volume, event)
	}
	return workers.Result{}, fmt.Errorf("volume %q: no end after %d steps", key.Name, mostSteps)
}

// viewVolume returns the newest known state of all that a decision about a volume depends on.
func (c *Controller) viewVolume(ctx context.Context, key api.Key) (v volumeView, err error) {
	if v.volume, err = c.volume(ctx, key.Name); err != nil || v.volume == nil {
		return v, err
	}
	if v.volume.Spec.ClaimRef == nil {
		v.owner, err = c.ownerOf(ctx, key.Name)
		return v, err
	}
	if v.claim, err = c.claims.Get(ctx, referenceKey(v.volume)); err != nil {
		return v, fmt.Errorf("read claim %s: %w", referenceKey(v.volume), err)
	}
	v.deleter, v.recycles = c.deleterOf(v.volume), c.recyclerOf(v.volume) != nil
	return v, nil
}

// confirmGone reports whether the API server has no claim with the UID of a volume's reference. A reference
// without a namespace or a name, which the API server accepts, is one to no claim.
func (c *Controller) confirmGone(ctx context.Context, pv *v1.PersistentVolume) (bool, error) {
	if key := referenceKey(pv); key.Namespace == "" || key.Name == "" {
		return true, nil
	}
	claim, err := c.claims.Live(ctx, referenceKey(pv))
	if err != nil {
		return false, fmt.Errorf("read claim %s: %w", referenceKey(pv), err)
	}
	return claim == nil || claim.UID != pv.Spec.ClaimRef.UID, nil
}

// takeVolumeStep takes a step.
func (c *Controller) takeVolumeStep(ctx context.Context, step volumeStep, v volumeView, event note) error {
	pv := v.volume
	switch step {
	case volumeAvailable:
		return c.patchVolume(ctx, pv, phasePatch(pv, v1.VolumeAvailable, ""))
	case volumeRelease:
		return c.patchVolume(ctx, pv, phasePatch(pv, v1.VolumeReleased, ""))
	case volumeFail:
		return c.patchVolume(ctx, pv, phasePatch(pv, v1.VolumeFailed, event.message))
	case volumeRestore:
		return c.patchVolume(ctx, pv, restorePatch(pv))
	case volumeUnbind:
		return c.patchVolume(ctx, pv, unbindPatch(pv))
	}
	return fmt.Errorf("step %d is unknown", step)
}

// announceMismatch sends the event of a volume, and of its claim.
func (c *Controller) announceMismatch(key api.Key, v volumeView, event note) {
	c.announce(key, v.volume, event)
	if event.reason == reasonVolumeMismatch {
		c.announce(api.KeyOf(v.claim), v.claim, warn(reasonVolumeMismatch,
			"Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", v.volume.Name))
	}
}
