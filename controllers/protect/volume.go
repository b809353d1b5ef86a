package protect

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
)

// claimKeyOf returns the key of the claim that a volume is bound to or reserved for. ok is false for a
// volume without a claim, for a reference without a namespace or a name, and for a volume that a user has
// reserved by name: the binder writes the UID of the claim before it binds, and so changes the version of
// the volume.
func claimKeyOf(pv *v1.PersistentVolume) (key api.Key, ok bool) {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" || ref.Namespace == "" || ref.Name == "" {
		return key, false
	}
	return api.Key{Namespace: ref.Namespace, Name: ref.Name}, true
}

// keepsVolume reports whether a claim keeps the volume that refers to it: the claim names the volume, or
// no volume yet, while the binder is between its two writes. A claim that names another volume, or that
// has ended, never comes back.
func keepsVolume(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) bool {
	return claim != nil && pv.Spec.ClaimRef != nil && claim.UID == pv.Spec.ClaimRef.UID && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == pv.Name)
}

// isReleased reports whether the binder has found the claim of a volume gone.
func isReleased(pv *v1.PersistentVolume) bool {
	return pv.Status.Phase == v1.VolumeReleased || pv.Status.Phase == v1.VolumeFailed
}

// volumeInCache reports whether a volume is bound by its phase, or by its claim in the cache.
func (c *Controller) volumeInCache(pv *v1.PersistentVolume) bool {
	if pv.Status.Phase == v1.VolumeBound {
		return true
	}
	key, ok := claimKeyOf(pv)
	if !ok {
		return false
	}
	claim, _ := c.claims.Cache().Get(key)
	return keepsVolume(claim, pv)
}

// volumeOnServer reports whether the claim of a volume keeps the volume. It calls the API server for a
// volume with a claim that the binder has not released.
func (c *Controller) volumeOnServer(ctx context.Context, pv *v1.PersistentVolume) (bool, error) {
	key, ok := claimKeyOf(pv)
	if !ok || isReleased(pv) {
		return false, nil
	}
	claim, err := c.claims.Live(ctx, key)
	if err != nil {
		return false, fmt.Errorf("claim %s: %w", key, err)
	}
	return keepsVolume(claim, pv), nil
}
