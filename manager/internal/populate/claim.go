package populate

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/notfound"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// specOf returns the specification of a volume, through its claim if it has one, with the
// checks of Kubernetes.
func (p *Populator) specOf(ctx context.Context, pod *v1.Pod, v *v1.Volume) (*volume.Spec, *v1.PersistentVolumeClaim, error) {
	name, readOnly := podspec.ClaimOf(pod, v)
	if name == "" {
		return volume.NewSpecFromVolume(v), nil, nil
	}
	named := "claim " + pod.Namespace + "/" + name
	claim, err := p.Claims.GetPersistentVolumeClaim(ctx, pod.Namespace, name)
	if err != nil {
		return nil, nil, notfound.Named(named, err)
	}
	err = checkClaim(pod, v, claim)
	if err == nil {
		err = p.checkDeletion(pod, v, claim)
	}
	if err != nil {
		return nil, nil, brief.Of(fmt.Errorf("%s: %w", named, err))
	}
	pv, err := p.Claims.GetPersistentVolume(ctx, claim.Spec.VolumeName)
	if err != nil {
		return nil, nil, brief.Of(fmt.Errorf("%s: %w", named, &unreadVolume{claim.Spec.VolumeName, err}))
	}
	err = checkBinding(claim, pv)
	if err == nil {
		// The path of a volume for other nodes may have another owner on this node.
		err = notBound(util.CheckNodeAffinity(pv, p.Node))
	}
	if err != nil {
		return nil, nil, brief.Of(fmt.Errorf("%s: persistent volume %q: %w", named, claim.Spec.VolumeName, err))
	}
	return volume.NewSpecFromPersistentVolume(pv, readOnly), claim, nil
}

// An unreadVolume is the failed read of a claim's persistent volume.
type unreadVolume struct {
	name string
	err  error
}

// Error names the volume.
func (e *unreadVolume) Error() string {
	return notfound.Named(fmt.Sprintf("persistent volume %q", e.name), e.err).Error()
}

// Unwrap returns the read's error.
func (e *unreadVolume) Unwrap() error { return e.err }

// checkClaim refuses a claim that is not bound, and a claim of an ephemeral volume that was
// created for another pod.
func checkClaim(pod *v1.Pod, v *v1.Volume, claim *v1.PersistentVolumeClaim) error {
	switch {
	case v.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
		return fmt.Errorf("%w: not created for this pod", ErrNotBound)
	case claim.Spec.VolumeName == "":
		return fmt.Errorf("%w: no volume yet", ErrNotBound)
	case claim.Status.Phase != v1.ClaimBound:
		return fmt.Errorf("%w: the phase is %q instead of %q", ErrNotBound, claim.Status.Phase, v1.ClaimBound)
	}
	return nil
}

// checkBinding refuses a volume that is bound to another claim, or that has another mode than
// the claim.
func checkBinding(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) error {
	ref := pv.Spec.ClaimRef
	switch {
	case ref == nil:
		return fmt.Errorf("%w: the volume is not bound", ErrNotBound)
	case ref.UID != claim.UID:
		return fmt.Errorf("%w: the volume is bound to %s/%s with the UID %q", ErrNotBound, ref.Namespace, ref.Name, ref.UID)
	}
	return notBound(util.CheckVolumeModesMatch(claim, pv))
}

// notBound wraps an error in ErrNotBound; it returns nil for nil.
func notBound(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotBound, err)
}
