package bind_test

import (
	"maps"
	"slices"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/util"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// check checks that no claim is bound to two volumes, no volume to two claims, and no volume to a claim
// since the begin of its recycling.
func (s *simulation) check() {
	claims, volumes := s.Claims(), s.Volumes()
	s.checkClaims(claims)
	s.checkVolumes(claims, volumes)
	before := s.bound
	s.bound = pairsOf(claims, volumes)
	for pair := range s.bound {
		if !before[pair] && s.plugin.recycles(pair.volume) {
			s.Fail("the claim %s is bound to the volume %s, which is being recycled", pair.claim, pair.volume)
		}
	}
}

func (s *simulation) checkClaims(claims []v1.PersistentVolumeClaim) {
	claimOf := map[string]string{}
	for _, claim := range claims {
		name := claim.Spec.VolumeName
		if before := s.names[claim.UID]; before != "" && before != name {
			s.Fail("claim %s names %q, and %q before", claim.Name, name, before)
		}
		s.names[claim.UID] = name
		if claim.Status.Phase != v1.ClaimBound {
			continue
		}
		if other, ok := claimOf[name]; ok {
			s.Fail("the claims %s and %s are bound to the volume %s", claim.Name, other, name)
		}
		claimOf[name] = claim.Name
	}
}

// checkVolumes checks that each volume that has become Bound since the last check has a claim that names it.
func (s *simulation) checkVolumes(claims []v1.PersistentVolumeClaim, volumes []v1.PersistentVolume) {
	before := s.phases
	s.phases = map[types.UID]v1.PersistentVolumePhase{}
	for _, pv := range volumes {
		s.phases[pv.UID] = pv.Status.Phase
		if pv.Status.Phase != v1.VolumeBound || before[pv.UID] == v1.VolumeBound || pv.Spec.ClaimRef == nil {
			continue
		}
		for _, claim := range claims {
			if claim.UID == pv.Spec.ClaimRef.UID && claim.Spec.VolumeName != pv.Name {
				s.Fail("the volume %s is bound to the claim %s, which names %q", pv.Name, claim.Name, claim.Spec.VolumeName)
			}
		}
	}
}

// pairsOf returns the pairs of which claim and volume name each other, and the claim is Bound.
func pairsOf(claims []v1.PersistentVolumeClaim, volumes []v1.PersistentVolume) map[pair]bool {
	pairs := map[pair]bool{}
	for _, claim := range claims {
		for _, pv := range volumes {
			if claim.Status.Phase == v1.ClaimBound && claim.Spec.VolumeName == pv.Name && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID {
				pairs[pair{claim.UID, pv.UID}] = true
			}
		}
	}
	return pairs
}

// checkCall checks that the storage of a volume may be deleted or recycled by the present state of the API
// server. Storage without an object is no data of a claim.
func (s *simulation) checkCall(verb, name string) {
	s.Log("  %s %s", verb, name)
	pv, err := s.Cluster.PersistentVolumes().Get(s.Context, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	s.Must(err)
	policy := v1.PersistentVolumeReclaimDelete
	if verb == "recycle" {
		policy = v1.PersistentVolumeReclaimRecycle
	}
	isReleased := pv.Status.Phase == v1.VolumeReleased || verb == "recycle" && pv.Status.Phase == v1.VolumeFailed
	if !isReleased || pv.Spec.PersistentVolumeReclaimPolicy != policy || pv.Spec.ClaimRef == nil {
		s.Fail("%s %s: the volume is %s, with the policy %s, of %v", verb, name, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.ClaimRef)
		return
	}
	for _, claim := range s.Claims() {
		if claim.UID == pv.Spec.ClaimRef.UID {
			s.Fail("%s %s: the claim %s lives", verb, name, claim.Name)
		}
	}
	for _, pod := range s.Pods() {
		if pod.Annotations["claim"] == string(pv.Spec.ClaimRef.UID) && verb != "release" {
			s.Fail("%s %s: %s uses it", verb, name, pod.Name)
		}
	}
}

// checkRecycled checks that the files of a recycled volume are those of no claim that is bound.
func (s *simulation) checkRecycled(r *simRecycling) {
	for pair := range pairsOf(s.Claims(), s.Volumes()) {
		if pair.volume == r.volume {
			s.Fail("the files of the claim %s in %s are removed", pair.claim, r.name)
		}
	}
}

// calmDown ends the faults and checks the end of all work.
func (s *simulation) calmDown() {
	s.RecoverAll()
	s.plugin.heal()
	s.Server.CutWatches("") // late events would be late for hours otherwise
	for _, name := range simClassNames {
		s.setClass(name, false)
	}
	s.Log("calm")
	s.work(2)
	s.endRecyclings()
	s.work(10)
	s.checkBound()
	s.checkDeletions()
	if len(s.Pods()) == 0 { // otherwise a pod may use a volume that is to be reclaimed
		s.CheckIdle()
	}
	if s.HasFailed() {
		return
	}
	for _, pod := range s.Pods() {
		s.deletePod(pod)
	}
	for _, claim := range s.Claims() {
		s.Tolerate(s.Cluster.PersistentVolumeClaims(namespace).Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
	}
	s.Log("the last claims are deleted")
	s.work(12)
	s.checkEnd()
}

// work lets all controllers work for a number of ten minutes.
func (s *simulation) work(n int) {
	for range n {
		s.RestartCrashed()
		s.lateView = nil
		s.unprotect(false)
		s.provision(1)
		s.schedule()
		synctest.Wait()
		s.check()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.check()
		if s.HasFailed() {
			return
		}
	}
}

// checkBound checks that each claim is bound that a free volume fits, and each one with a provisioner.
func (s *simulation) checkBound() {
	volumes := s.Volumes()
	for _, claim := range s.Claims() {
		class := claim.Spec.StorageClassName
		if claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "" || class != nil && *class == "late" {
			continue
		}
		if class != nil && *class != "" {
			s.Fail("claim %s, UID %s, of the class %s is not bound", claim.Name, claim.UID, *class)
		}
		for _, pv := range volumes {
			isFree := pv.Spec.ClaimRef == nil && pv.Status.Phase == v1.VolumeAvailable
			if isFree && util.MatchVolume(&claim, &pv, nil) == nil {
				s.Fail("claim %s is not bound, and %s is free", claim.Name, pv.Name)
			}
		}
	}
}

// checkDeletions checks that an object in deletion is in use.
func (s *simulation) checkDeletions() {
	pods := s.Pods()
	claims := s.Claims()
	for _, claim := range claims {
		isUsed := slices.ContainsFunc(pods, func(pod v1.Pod) bool { return claimOf(pod) == claim.Name })
		if claim.DeletionTimestamp != nil && !isUsed {
			s.Fail("claim %s is in deletion, with the finalizers %s", claim.Name, claim.Finalizers)
		}
	}
	for _, pv := range s.Volumes() {
		ref := pv.Spec.ClaimRef
		isUsed := slices.ContainsFunc(claims, func(c v1.PersistentVolumeClaim) bool {
			if ref == nil { // a user has removed it, and the claim may be in deletion as well, and in use
				return c.Spec.VolumeName == pv.Name
			}
			return c.UID == ref.UID && c.Spec.VolumeName != ""
		})
		isUsed = isUsed || ref != nil && slices.ContainsFunc(pods, func(pod v1.Pod) bool { return claimOf(pod) == ref.Name })
		if pv.DeletionTimestamp != nil && !isUsed {
			s.Fail("volume %s is in deletion, %s, of %v, with the finalizers %s", pv.Name, pv.Status.Phase, ref, pv.Finalizers)
		}
	}
}

// checkEnd checks that each volume is free, kept by its policy, or gone with its storage.
func (s *simulation) checkEnd() {
	objects := map[string]bool{}
	for _, claim := range s.Claims() {
		s.Fail("claim %s is left, with the finalizers %s", claim.Name, claim.Finalizers)
	}
	for _, pv := range s.Volumes() {
		objects[pv.Name] = true
		isReserved := pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID != ""
		isKept := pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRetain ||
			pv.Annotations[provision.ProvisionedByAnnotation] == external && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete && pv.Status.Phase == v1.VolumeFailed
		switch {
		case pv.DeletionTimestamp != nil,
			!isReserved && pv.Status.Phase != v1.VolumeAvailable, isReserved && !isKept,
			isReserved && pv.Status.Phase != v1.VolumeReleased && pv.Status.Phase != v1.VolumeFailed:
			s.Fail("volume %s is left: %s, %s, %v, finalizers %s, annotations %s", pv.Name, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy,
				pv.Spec.ClaimRef, pv.Finalizers, slices.Sorted(maps.Keys(pv.Annotations)))
		}
	}
	for _, name := range s.plugin.names() {
		if !objects[name] && !s.isTwin { // two controllers can lose storage: see the package doc of provision
			s.Fail("the storage %s is left", name)
		}
	}
}
