package bind_test

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/util"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// check checks that no claim is bound to two volumes, and no volume to two claims.
func (s *simulation) check() {
	claims := map[string]string{}
	for _, claim := range s.claims() {
		name := claim.Spec.VolumeName
		if before := s.names[claim.UID]; before != "" && before != name {
			s.fail("claim %s names %q, and %q before", claim.Name, name, before)
		}
		s.names[claim.UID] = name
		if claim.Status.Phase != v1.ClaimBound {
			continue
		}
		if other, ok := claims[name]; ok {
			s.fail("the claims %s and %s are bound to the volume %s", claim.Name, other, name)
		}
		claims[name] = claim.Name
	}
	volumes := map[types.UID]string{}
	for _, pv := range s.volumes() {
		if pv.Status.Phase != v1.VolumeBound || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
			continue
		}
		uid := pv.Spec.ClaimRef.UID
		if other, ok := volumes[uid]; ok {
			s.fail("the volumes %s and %s are bound to the claim %s", pv.Name, other, pv.Spec.ClaimRef.Name)
		}
		volumes[uid] = pv.Name
	}
}

// checkCall checks that the storage of a volume may be deleted or recycled by the present state of the API
// server. Storage without an object is no data of a claim.
func (s *simulation) checkCall(verb, name string) {
	s.log("  %s %s", verb, name)
	pv, err := s.cluster.PersistentVolumes().Get(s.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	s.must(err)
	policy := v1.PersistentVolumeReclaimDelete
	if verb == "recycle" {
		policy = v1.PersistentVolumeReclaimRecycle
	}
	isReleased := pv.Status.Phase == v1.VolumeReleased || verb == "recycle" && pv.Status.Phase == v1.VolumeFailed
	if s.hasTwins && verb == "recycle" && pv.Spec.ClaimRef == nil {
		return // the other binder has recycled the volume between the last read and the call
	}
	if !isReleased || pv.Spec.PersistentVolumeReclaimPolicy != policy || pv.Spec.ClaimRef == nil {
		s.fail("%s %s: the volume is %s, with the policy %s", verb, name, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy)
		return
	}
	for _, claim := range s.claims() {
		if claim.UID == pv.Spec.ClaimRef.UID {
			s.fail("%s %s: the claim %s lives", verb, name, claim.Name)
		}
	}
	for _, pod := range s.pods() {
		if pod.Annotations["claim"] == string(pv.Spec.ClaimRef.UID) && verb != "release" {
			s.fail("%s %s: the pod %s uses it", verb, name, pod.Name)
		}
	}
}

// calmDown ends the faults and checks the end of all work.
func (s *simulation) calmDown() {
	for len(s.faults) > 0 {
		s.recover()
	}
	s.plugin.heal()
	s.server.CutWatches("") // events are late for hours otherwise
	s.log("calm")
	s.work(12)
	s.checkBound()
	s.checkIdle()
	if s.hasFailed() {
		return
	}
	for _, pod := range s.pods() {
		s.tolerate(s.cluster.Pods(namespace).Delete(s.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
	for _, claim := range s.claims() {
		s.tolerate(s.cluster.PersistentVolumeClaims(namespace).Delete(s.ctx, claim.Name, metav1.DeleteOptions{}))
	}
	s.log("the last claims are deleted")
	s.work(12)
	s.checkEnd()
}

// work lets all controllers work for a number of ten minutes.
func (s *simulation) work(n int) {
	for range n {
		s.restartCrashed()
		s.unprotectClaims(false)
		s.provision(1)
		s.schedule()
		synctest.Wait()
		s.check()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s.check()
		if s.hasFailed() {
			return
		}
	}
}

// checkBound checks that each claim is bound that a free volume fits, and each one with a provisioner.
func (s *simulation) checkBound() {
	volumes := s.volumes()
	for _, claim := range s.claims() {
		isLeaving := slices.ContainsFunc(volumes, func(pv v1.PersistentVolume) bool { // provisioned, and deleted by a user
			return pv.DeletionTimestamp != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID
		})
		if isLeaving || claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "" || *claim.Spec.StorageClassName == "late" {
			continue
		}
		if *claim.Spec.StorageClassName != "" {
			s.fail("claim %s of the class %s is not bound", claim.Name, *claim.Spec.StorageClassName)
		}
		for _, pv := range volumes {
			isFree := pv.Spec.ClaimRef == nil && pv.Status.Phase == v1.VolumeAvailable
			if isFree && util.MatchVolume(&claim, &pv, nil) == nil {
				s.fail("claim %s is not bound, and %s is free", claim.Name, pv.Name)
			}
		}
	}
}

// checkIdle checks that an idle controller makes no calls.
func (s *simulation) checkIdle() {
	if len(s.pods()) > 0 || s.hasTwins {
		return // a pod may use a volume that is to be reclaimed; late caches of twins catch up one by one
	}
	s.server.ForgetCalls()
	time.Sleep(time.Hour)
	for _, call := range s.server.Calls(apitest.Call{}) {
		if call.Verb != apitest.Watch && call.Verb != apitest.List {
			s.fail("an idle controller calls: %s", call)
			return
		}
	}
}

// checkEnd checks that each volume is free, kept by its policy, or gone with its storage.
func (s *simulation) checkEnd() {
	objects := map[string]bool{}
	for _, claim := range s.claims() {
		s.fail("claim %s is left, with the finalizers %s", claim.Name, claim.Finalizers)
	}
	for _, pv := range s.volumes() {
		objects[pv.Name] = true
		isReserved := pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID != ""
		isKept := pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRetain ||
			pv.Annotations[provision.ProvisionedByAnnotation] == external && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete && pv.Status.Phase == v1.VolumeFailed
		switch {
		case !isReserved && pv.Status.Phase != v1.VolumeAvailable, isReserved && !isKept,
			isReserved && !slices.Contains([]v1.PersistentVolumePhase{v1.VolumeReleased, v1.VolumeFailed}, pv.Status.Phase):
			s.fail("volume %s is left: %s, %s, %v, finalizers %s", pv.Name, pv.Status.Phase, pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.ClaimRef, pv.Finalizers)
		}
	}
	for _, name := range s.plugin.names() {
		if !objects[name] {
			s.fail("the storage %s is left", name)
		}
	}
}
