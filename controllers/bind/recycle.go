package bind

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unfinished selects the pods that can use a volume.
const unfinished = "status.phase!=Succeeded,status.phase!=Failed"

// handleRecycle recycles a released volume, and then removes its reference. If the program ends between
// the two, the next run recycles again.
func (c *Controller) handleRecycle(ctx context.Context, key api.Key) (workers.Result, error) {
	pv, err := c.confirmReleased(ctx, key)
	if err != nil || pv == nil {
		return workers.Result{}, err
	}
	if err := c.confirmUnused(ctx, pv); err != nil {
		c.announce(key, pv, tell(reasonFailedRecycle, "%v", err))
		return workers.Result{}, err
	}
	// Directly before the call: another binder may have recycled the volume meanwhile.
	live, err := c.volumes.Live(ctx, key)
	if err != nil {
		return workers.Result{}, fmt.Errorf("read volume %q: %w", key.Name, err)
	}
	if live == nil || live.UID != pv.UID || live.ResourceVersion != pv.ResourceVersion {
		c.volumePool.Add(key) // decides again
		return workers.Result{}, nil
	}
	if err := c.recycle(ctx, pv); err != nil {
		return workers.Result{}, errors.Join(err, c.failRecycling(ctx, pv, err))
	}
	c.announce(key, pv, tell(reasonVolumeRecycled, "Volume recycled"))
	if err := c.patchVolume(ctx, pv, unbindPatch(pv)); err != nil {
		return workers.Result{}, fmt.Errorf("volume %q: %w", pv.Name, err)
	}
	c.volumePool.Add(key)
	return workers.Result{}, nil
}

// confirmReleased returns a volume if the API server, and not a cache, shows that it is to be recycled.
func (c *Controller) confirmReleased(ctx context.Context, key api.Key) (*v1.PersistentVolume, error) {
	pv, err := c.volumes.Live(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read volume %q: %w", key.Name, err)
	}
	if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
		return nil, nil
	}
	isGone, err := c.confirmGone(ctx, pv)
	if err != nil || !isGone {
		return nil, err
	}
	v := volumeView{volume: pv, isConfirmed: true, recycles: c.recyclerOf(pv) != nil}
	if step, _ := decideVolume(v); step != volumeRecycle {
		return nil, nil
	}
	return pv, nil
}

// confirmUnused returns an error if the API server shows a pod that may use the claim of a volume, or an
// attachment of the volume.
func (c *Controller) confirmUnused(ctx context.Context, pv *v1.PersistentVolume) error {
	ref := pv.Spec.ClaimRef
	pods, err := c.config.Cluster.Pods(ref.Namespace).List(ctx, metav1.ListOptions{FieldSelector: unfinished})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	claim, err := c.claims.Get(ctx, referenceKey(pv))
	if err != nil {
		return fmt.Errorf("read claim %s: %w", referenceKey(pv), err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		isLater := claim != nil && claim.CreationTimestamp.Before(&pod.CreationTimestamp)
		if usesClaim(pod, ref.Name) && !isLater {
			return fmt.Errorf("the volume is used by pod %s/%s", pod.Namespace, pod.Name)
		}
	}
	attachments, err := c.config.Cluster.VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list volume attachments: %w", err)
	}
	for _, attachment := range attachments.Items {
		if name := attachment.Spec.Source.PersistentVolumeName; name != nil && *name == pv.Name {
			return fmt.Errorf("the volume is attached to node %s", attachment.Spec.NodeName)
		}
	}
	return nil
}

// usesClaim reports whether a volume of a pod names a claim.
func usesClaim(pod *v1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim ||
			v.Ephemeral != nil && pod.Name+"-"+v.Name == claim
	})
}

// recycle calls the plugin of a volume.
func (c *Controller) recycle(ctx context.Context, pv *v1.PersistentVolume) error {
	if c.config.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.config.Timeout)
		defer cancel()
	}
	recycler := c.recyclerOf(pv)
	if recycler == nil {
		return volume.ErrNoPluginMatched
	}
	return brief.Of(recycler.Recycle(ctx, pv.Name, volume.NewSpecFromPersistentVolume(pv.DeepCopy(), false)))
}

// failRecycling writes the phase Failed, and reports the failure.
func (c *Controller) failRecycling(ctx context.Context, pv *v1.PersistentVolume, failure error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	plugin := ""
	if found, err := c.config.Plugins.FindPluginBySpec(volume.NewSpecFromPersistentVolume(pv, false)); err == nil {
		plugin = found.GetPluginName()
	}
	c.config.Metrics.Add(OperationErrorsTotal, 1,
		manager.Label{Name: "plugin_name", Value: plugin}, manager.Label{Name: "operation_name", Value: "recycle"})
	event := warn(reasonFailedRecycle, "Recycle failed: %v", failure)
	c.announce(api.KeyOf(pv), pv, event)
	if pv.Status.Phase == v1.VolumeFailed {
		return nil
	}
	return c.patchVolume(ctx, pv, phasePatch(pv, v1.VolumeFailed, brief.Text(event.message)))
}
