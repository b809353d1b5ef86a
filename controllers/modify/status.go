package modify

import (
	"context"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimstatus"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// begun returns the change of a claim whose volume is about to change to a class.
func begun(claim *v1.PersistentVolumeClaim, class string) claimstatus.Change {
	return claimstatus.Change{
		Modify: &v1.ModifyVolumeStatus{TargetVolumeAttributesClassName: class, Status: inProgress},
		Set:    claimstatus.Missing(claim, v1.PersistentVolumeClaimVolumeModifyingVolume, ""),
		Remove: slices.DeleteFunc(claimstatus.Present(claim, claimstatus.ModifyConditions),
			func(kind v1.PersistentVolumeClaimConditionType) bool {
				return kind == v1.PersistentVolumeClaimVolumeModifyingVolume
			}),
	}
}

// waiting returns the change of a claim whose class does not exist.
func waiting(claim *v1.PersistentVolumeClaim, class string) (c claimstatus.Change) {
	if state := (v1.ModifyVolumeStatus{TargetVolumeAttributesClassName: class, Status: pending}); stateOf(claim) != state {
		c.Modify = &state
	}
	return c
}

// changed returns the change of a claim whose volume has the parameters of a class.
func changed(claim *v1.PersistentVolumeClaim, class string) claimstatus.Change {
	c := cleared(claim)
	c.Attributes = class
	return c
}

// cleared returns the change of a claim whose change of attributes was given up.
func cleared(claim *v1.PersistentVolumeClaim) claimstatus.Change {
	return claimstatus.Change{Modify: &v1.ModifyVolumeStatus{}, Remove: claimstatus.Present(claim, claimstatus.ModifyConditions)}
}

// failed returns the change of a claim after a final error.
func failed(claim *v1.PersistentVolumeClaim, class string, err error) claimstatus.Change {
	c := claimstatus.Change{Set: claimstatus.Missing(claim, v1.PersistentVolumeClaimVolumeModifyVolumeError, telemetry.Text("failed to modify the volume: "+err.Error()))}
	if state := (v1.ModifyVolumeStatus{TargetVolumeAttributesClassName: class, Status: infeasible}); isInfeasible(err) && stateOf(claim) != state {
		c.Modify = &state
	}
	return c
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

// patchVolume writes the class to a volume, in the given version alone.
func (c *Controller) patchVolume(ctx context.Context, pv *v1.PersistentVolume, class string) error {
	data, err := objectpatch.Of(pv).OfVersion(pv).WithAttributes(class).Encode()
	if err == nil {
		_, err = c.volumes.Patch(ctx, api.KeyOf(pv), types.StrategicMergePatchType, data)
	}
	if err != nil {
		return fmt.Errorf("patch volume %q: %w", pv.Name, err)
	}
	return nil
}
