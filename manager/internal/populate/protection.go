package populate

import (
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// ProtectionFinalizer keeps a claim in the API server while a pod uses it.
const ProtectionFinalizer = "kubernetes.io/pvc-protection"

// checkDeletion refuses a claim that is being deleted, except for pods that have its volume:
// for these pods the finalizer keeps the claim.
func (p *Populator) checkDeletion(pod *v1.Pod, v *v1.Volume, claim *v1.PersistentVolumeClaim) error {
	switch {
	case claim.DeletionTimestamp == nil:
		return nil
	case !slices.Contains(claim.Finalizers, ProtectionFinalizer):
		return fmt.Errorf("%w: being deleted without the finalizer %s", ErrNotBound, ProtectionFinalizer)
	case podspec.HasRun(pod) || p.hadClaim(pod, v) || p.mayBeUp(pod, v, claim.Spec.VolumeName):
		return nil
	}
	return fmt.Errorf("%w: being deleted and not yet used by the pod", ErrNotBound)
}

// hadClaim reports whether the last population had the claim's volume for the pod.
func (p *Populator) hadClaim(pod *v1.Pod, v *v1.Volume) bool {
	_, ok := p.Before.PlaceNamed(naming.PodVolume{Pod: pod.UID, Name: v.Name})
	return ok && p.isSameClaim(pod, v)
}

// checkPodEnding refuses new volumes for a pod that is being deleted and has never run.
func (p *Populator) checkPodEnding(pod *v1.Pod, v *v1.Volume, spec *volume.Spec) error {
	if pod.DeletionTimestamp == nil || podspec.HasRun(pod) || p.viewMayBeUp(pod, v, spec) {
		return nil
	}
	return ErrPodEnds
}

// viewMayBeUp reports whether the volume is, or may be, up in the directory of this name of the
// pod: of the two directories that a pod may have of a claim, the volume itself or its view.
func (p *Populator) viewMayBeUp(pod *v1.Pod, v *v1.Volume, spec *volume.Spec) bool {
	isView := podvolume.IsView(p.views.DirectoryName(v, spec))
	return p.mayMatch(pod, v, spec.Name(), func(s Existing) bool { return podvolume.IsView(s.Dir) == isView })
}

// mayBeUp reports whether the claim's volume, or a volume in the directory of that name, is
// or may be up in the pod.
func (p *Populator) mayBeUp(pod *v1.Pod, v *v1.Volume, name string) bool {
	return p.mayMatch(pod, v, name, func(Existing) bool { return true })
}

// mayMatch reports whether one of the existing volumes for which matches returns true is the
// claim's, or is in the directory of the name.
func (p *Populator) mayMatch(pod *v1.Pod, v *v1.Volume, name string, matches func(Existing) bool) bool {
	if p.ExistingIn == nil {
		return false
	}
	claim, _ := podspec.ClaimOf(pod, v)
	return slices.ContainsFunc(p.ExistingIn(pod.UID), func(s Existing) bool {
		return matches(s) &&
			(podvolume.ViewedName(s.Dir) == name || claim != "" && s.isComplete() && s.belongsToClaim(pod.Namespace, claim))
	})
}
