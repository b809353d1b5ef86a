package populate

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestClaimChecks: a claim is usable only if it is bound, and its volume is bound to it.
func TestClaimChecks(t *testing.T) {
	bound := func(change func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)) error {
		claim, pv := &v1.PersistentVolumeClaim{}, &v1.PersistentVolume{}
		claim.UID, claim.Spec.VolumeName, claim.Status.Phase = "claim", "disk", v1.ClaimBound
		pv.Spec.ClaimRef = &v1.ObjectReference{UID: "claim"}
		change(claim, pv)
		if err := checkClaim(&v1.Pod{}, &v1.Volume{}, claim); err != nil {
			return err
		}
		return checkBinding(claim, pv)
	}
	require.NoError(t, bound(func(*v1.PersistentVolumeClaim, *v1.PersistentVolume) {}))
	block := v1.PersistentVolumeBlock
	for name, change := range map[string]func(*v1.PersistentVolumeClaim, *v1.PersistentVolume){
		"no volume":    func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "" },
		"lost":         func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimLost },
		"free volume":  func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil },
		"another UID":  func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = "other" },
		"another mode": func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block },
	} {
		require.ErrorIs(t, bound(change), ErrNotBound, name)
	}
}
