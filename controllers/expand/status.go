package expand

import (
	"context"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimstatus"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// begin returns the change of a claim whose expansion begins.
func begin(claim *v1.PersistentVolumeClaim, name string, size resource.Quantity) claimstatus.Change {
	state := inProgress
	c := claimstatus.Change{Allocated: &size, State: &state, Set: claimstatus.Missing(claim, v1.PersistentVolumeClaimResizing, "")}
	c.Remove = slices.DeleteFunc(claimstatus.Present(claim, claimstatus.ResizeConditions),
		func(kind v1.PersistentVolumeClaimConditionType) bool { return kind == v1.PersistentVolumeClaimResizing })
	annotations := map[string]any{}
	if claim.Annotations[ResizerAnnotation] != name {
		annotations[ResizerAnnotation] = name
	}
	if _, isComplete := claim.Annotations[CompleteAnnotation]; isComplete {
		annotations[CompleteAnnotation] = nil
	}
	if len(annotations) > 0 {
		c.Annotations = annotations
	}
	return c
}

// success returns the change of a claim whose storage has grown.
func success(claim *v1.PersistentVolumeClaim, result volume.ExpandResult) claimstatus.Change {
	if result.NodeExpansionRequired {
		state := nodePending
		return claimstatus.Change{State: &state, Set: claimstatus.Missing(claim, v1.PersistentVolumeClaimFileSystemResizePending,
			"the file system grows on the node that uses the volume")}
	}
	size := larger(result.Size, claim.Status.Capacity[v1.ResourceStorage])
	return claimstatus.Change{
		Capacity: &size, State: new(v1.ClaimResourceStatus), Remove: claimstatus.Present(claim, claimstatus.ResizeConditions),
		Annotations: map[string]any{CompleteAnnotation: "true"},
	}
}

// failure returns the change of a claim after a final error.
func failure(claim *v1.PersistentVolumeClaim, err error) claimstatus.Change {
	c := claimstatus.Change{Set: claimstatus.Missing(claim, v1.PersistentVolumeClaimControllerResizeError,
		telemetry.Text("failed to expand the volume: "+err.Error()))}
	if isInfeasible(err) && stateOf(claim) != infeasible {
		state := infeasible
		c.State = &state
	}
	return c
}

// grow returns the patch of a volume whose storage has grown, and whether one is needed. The patch names
// the version of the volume, so that no capacity becomes smaller.
func grow(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume, result volume.ExpandResult) (objectpatch.Patch, bool) {
	patch, isNeeded := objectpatch.Of(pv).OfVersion(pv), false
	if capacity := pv.Spec.Capacity[v1.ResourceStorage]; capacity.Cmp(result.Size) < 0 {
		size := result.Size.DeepCopy() // String changes its receiver
		patch, isNeeded = patch.WithCapacity(size.String()), true
	}
	if _, isMarked := pv.Annotations[CapacityBeforeAnnotation]; result.NodeExpansionRequired && !isMarked {
		before := claim.Status.Capacity.Storage().DeepCopy()
		patch, isNeeded = patch.WithAnnotation(CapacityBeforeAnnotation, before.String()), true
	}
	return patch, isNeeded
}

// mark begins the expansion of a claim.
func (c *Controller) mark(ctx context.Context, key api.Key, v view, name string, size resource.Quantity) error {
	if err := c.patchClaim(ctx, v.claim, begin(v.claim, name, size)); err != nil {
		return err
	}
	if c.attempts.Get(key, v.claim.UID).isOf(size, requestOf(v.claim)) {
		return nil // a refused size is tried again
	}
	c.announce(key, v.claim, v1.EventTypeNormal, reasonExpanding, fmt.Sprintf("resizing volume %s to %s", v.volume.Name, size.String()))
	return nil
}

// clear removes the annotation of a volume whose growth has ended on the node.
func (c *Controller) clear(ctx context.Context, pv *v1.PersistentVolume) error {
	return c.patchVolume(ctx, pv, objectpatch.Of(pv).OfVersion(pv).WithoutAnnotation(CapacityBeforeAnnotation))
}

// patchClaim changes the status of a claim, in the given version alone.
func (c *Controller) patchClaim(ctx context.Context, claim *v1.PersistentVolumeClaim, change claimstatus.Change) error {
	if change.IsEmpty() {
		return nil
	}
	data, err := change.Patch(claim)
	if err == nil {
		_, err = c.claims.Patch(ctx, api.KeyOf(claim), types.StrategicMergePatchType, data, "status")
	}
	if err != nil {
		return fmt.Errorf("patch the status: %w", err)
	}
	return nil
}

func (c *Controller) patchVolume(ctx context.Context, pv *v1.PersistentVolume, patch objectpatch.Patch) error {
	data, err := patch.Encode()
	if err == nil {
		_, err = c.volumes.Patch(ctx, api.KeyOf(pv), types.StrategicMergePatchType, data)
	}
	if err != nil {
		return fmt.Errorf("patch volume %q: %w", pv.Name, err)
	}
	return nil
}
