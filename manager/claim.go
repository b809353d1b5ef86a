package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrNotBound is wrapped by the error of a volume whose claim cannot be used, or not
// yet: it is not bound, bound to something else, being deleted, or its volume is for
// other nodes.
var ErrNotBound = errors.New("the claim cannot be used")

// claims is what of a [Source] says what is behind a volume.
type claims interface {
	PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error)
}

// specOf follows a volume of a pod through its claim, with the checks that Kubernetes
// makes, to what is behind it.
func specOf(ctx context.Context, source claims, on node, pod *v1.Pod, v *v1.Volume) (*volume.Spec, error) {
	name, readOnly := claimOf(pod, v)
	if name == "" {
		return volume.NewSpecFromVolume(v), nil
	}
	claim, err := source.PersistentVolumeClaim(ctx, pod.Namespace, name)
	if err == nil {
		err = checkClaim(pod, v, claim)
	}
	if err != nil {
		return nil, fmt.Errorf("claim %s/%s: %w", pod.Namespace, name, err)
	}
	pv, err := source.PersistentVolume(ctx, claim.Spec.VolumeName)
	if err == nil {
		err = checkBinding(claim, pv)
	} else {
		err = &unreadVolume{claim.Spec.VolumeName, err}
	}
	if err == nil {
		err = on.checkAffinity(pv)
	}
	if err != nil {
		return nil, fmt.Errorf("claim %s/%s: persistent volume %q: %w", pod.Namespace, name, claim.Spec.VolumeName, err)
	}
	return volume.NewSpecFromPersistentVolume(pv, readOnly), nil
}

// An unreadVolume is one that a claim names, and that could not be read.
type unreadVolume struct {
	name string
	err  error
}

func (e *unreadVolume) Error() string { return e.err.Error() }
func (e *unreadVolume) Unwrap() error { return e.err }

// claimOf returns the name of the claim behind a volume, if there is one. That of an
// ephemeral volume is made for the pod.
func claimOf(pod *v1.Pod, v *v1.Volume) (name string, readOnly bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, v.PersistentVolumeClaim.ReadOnly
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name, false
	}
	return "", false
}

func checkClaim(pod *v1.Pod, v *v1.Volume, claim *v1.PersistentVolumeClaim) error {
	switch {
	case claim.DeletionTimestamp != nil:
		return fmt.Errorf("%w: it is being deleted", ErrNotBound)
	case v.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
		return fmt.Errorf("%w: it was not made for this pod", ErrNotBound)
	case claim.Spec.VolumeName == "":
		return fmt.Errorf("%w: it has no volume yet", ErrNotBound)
	case claim.Status.Phase != v1.ClaimBound:
		return fmt.Errorf("%w: it is %q, not bound", ErrNotBound, claim.Status.Phase)
	}
	return nil
}

func checkBinding(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) error {
	ref := pv.Spec.ClaimRef
	switch {
	case ref == nil:
		return fmt.Errorf("%w: the volume is not bound", ErrNotBound)
	case ref.UID != claim.UID:
		return fmt.Errorf("%w: the volume is bound to %s/%s with the UID %q", ErrNotBound, ref.Namespace, ref.Name, ref.UID)
	case modeOf(pv.Spec.VolumeMode) != modeOf(claim.Spec.VolumeMode):
		return fmt.Errorf("%w: the volume's mode is %s, the claim's %s", ErrNotBound, modeOf(pv.Spec.VolumeMode), modeOf(claim.Spec.VolumeMode))
	}
	return nil
}

func modeOf(mode *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if mode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *mode
}
