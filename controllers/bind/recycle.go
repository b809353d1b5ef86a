package bind

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// handleRecycle recycles a released volume, and then removes its reference. Before the call it marks the
// volume, in the version that was confirmed: a marked volume receives no claim, whatever users do to its
// reference, and another binder does not recycle it. The mark goes with the reference. If the program ends
// meanwhile, or the outcome of the call is uncertain, the mark stays, and the volume is recycled again.
func (c *Controller) handleRecycle(ctx context.Context, key api.Key) (workers.Result, error) {
	pv, err := c.confirmReleased(ctx, key)
	if err != nil || pv == nil {
		return workers.Result{}, err
	}
	if pause := c.foreign.wait(key, pv, c.run, time.Now()); pause > 0 {
		return workers.Result{After: pause}, nil
	}
	if err := c.confirmUnused(ctx, pv); err != nil {
		c.announce(key, pv, tell(reasonFailedRecycle, "%v", err))
		return workers.Result{}, err
	}
	p, err := markPatch(pv, c.run)
	if err != nil {
		return workers.Result{}, err
	}
	marked, err := c.writeVolume(ctx, pv, p)
	if err != nil || marked == nil {
		c.volumePool.Add(key) // decides again
		return workers.Result{}, err
	}
	if err := c.recycle(ctx, marked); err != nil {
		return workers.Result{}, errors.Join(err, c.failRecycling(ctx, marked, err))
	}
	return workers.Result{}, c.endRecycling(ctx, marked, recycledPatch, tell(reasonVolumeRecycled, "Volume recycled"))
}

// endRecycling patches a volume whose recycling has ended, unless another run has its mark.
func (c *Controller) endRecycling(ctx context.Context, pv *v1.PersistentVolume, of func(*v1.PersistentVolume) patch, event note) error {
	key := api.KeyOf(pv)
	for range mostSteps {
		now, err := c.volume(ctx, pv.Name)
		if err != nil {
			return err
		}
		if !c.holdsMark(now, pv) {
			c.volumePool.Add(key) // forgets a volume that has ended
			return nil
		}
		written, err := c.writeVolume(ctx, now, of(now))
		switch {
		case apierrors.IsConflict(err), err == nil && written == nil: // the next read has the change
		case err != nil:
			return fmt.Errorf("volume %q: %w", pv.Name, err)
		default:
			c.announce(key, written, event)
			c.volumePool.Add(key)
			return nil
		}
	}
	return fmt.Errorf("volume %q: no end after %d steps", pv.Name, mostSteps)
}

// confirmReleased returns a volume if the API server, and not a cache, shows that it is to be recycled.
func (c *Controller) confirmReleased(ctx context.Context, key api.Key) (*v1.PersistentVolume, error) {
	pv, err := c.volumes.Live(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read volume %q: %w", key.Name, err)
	}
	if pv == nil {
		c.volumePool.Add(key) // forgets the volume
		return nil, nil
	}
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
		return nil, nil
	}
	isGone, err := c.confirmGone(ctx, pv)
	if err == nil && !isGone {
		c.volumePool.Add(key) // waits for the end of the claim, which the cache may never have
	}
	if err != nil || !isGone {
		return nil, err
	}
	v := volumeView{volume: pv, isConfirmed: true, recycles: c.recyclerOf(pv) != nil}
	if step, _ := decideVolume(v); step != volumeRecycle {
		return nil, nil
	}
	return pv, nil
}

// confirmUnused returns an error if the API server shows a user of a volume.
func (c *Controller) confirmUnused(ctx context.Context, pv *v1.PersistentVolume) error {
	plugin, err := c.config.Plugins.FindPluginBySpec(volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return fmt.Errorf("find the plugin: %w", err)
	}
	claim, err := c.claims.Get(ctx, referenceKey(pv))
	if err != nil {
		return fmt.Errorf("read claim %s: %w", referenceKey(pv), err)
	}
	return provision.CheckUnused(ctx, c.config.Cluster, plugin, pv, claim)
}

// recycle calls the plugin of a marked volume. The call ends if the volume loses the mark.
func (c *Controller) recycle(ctx context.Context, pv *v1.PersistentVolume) error {
	marked, lose := context.WithCancelCause(ctx)
	var renewal sync.WaitGroup
	defer renewal.Wait()
	defer lose(nil)
	renewal.Go(func() { c.renewMark(marked, pv, lose) })
	ctx = marked
	if c.config.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.config.Timeout)
		defer cancel()
	}
	recycler := c.recyclerOf(pv)
	if recycler == nil {
		return volume.ErrNoPluginMatched
	}
	err := brief.Of(recycler.Recycle(ctx, pv.Name, volume.NewSpecFromPersistentVolume(pv.DeepCopy(), false)))
	if err != nil && ctx.Err() != nil {
		return volume.AsUncertain(err)
	}
	return err
}

// failRecycling writes the phase Failed, and reports the failure. The mark stays if the recycling may go on.
func (c *Controller) failRecycling(ctx context.Context, pv *v1.PersistentVolume, failure error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.config.Metrics.Add(OperationErrorsTotal, 1, operationLabels(c.labelOf(pv), "recycle")...)
	event := warn(reasonFailedRecycle, "Recycle failed: %v", failure)
	c.announce(api.KeyOf(pv), pv, event)
	if pv.Status.Phase != v1.VolumeFailed {
		fail := func(pv *v1.PersistentVolume) patch { return phasePatch(pv, v1.VolumeFailed, brief.Text(event.message)) }
		if err := c.endRecycling(ctx, pv, fail, note{}); err != nil {
			return err
		}
	}
	if errors.Is(failure, volume.ErrUncertain) {
		return nil
	}
	return c.endRecycling(ctx, pv, unmarkPatch, note{})
}
