package protect_test

import (
	"slices"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// check checks that no started pod has lost a claim, and no bound claim its volume.
func (s *simulation) check() {
	pods, claims, volumes := s.Pods(), map[types.UID]*v1.PersistentVolumeClaim{}, map[types.UID]bool{}
	for _, claim := range s.Claims() { // after the pods: a pod that has ended meanwhile loses nothing
		claims[claim.UID] = &claim
	}
	for _, pv := range s.Volumes() {
		volumes[pv.UID] = true
	}
	for _, pod := range pods {
		if isShutDown(&pod) {
			continue
		}
		for _, uid := range s.started[pod.UID] {
			if claims[uid] == nil && !s.abandoned[uid] {
				s.Fail("%s, UID %s, has lost the claim %s", pod.Name, pod.UID, uid)
			}
		}
	}
	for uid, pv := range s.bound {
		if claims[uid] != nil && !volumes[pv] && !s.abandoned[pv] {
			s.Fail("claim %s has lost the volume %s", claims[uid].Name, pv)
		}
	}
}

// calmDown ends the faults and checks the end of all work.
func (s *simulation) calmDown() {
	s.RecoverAll()
	s.Log("calm")
	s.work(12)
	s.checkProtection()
	s.checkEphemeral()
	s.CheckIdle()
	if s.HasFailed() {
		return
	}
	for _, pod := range s.Pods() {
		s.Tolerate(s.Cluster.Pods(namespace).Delete(s.Context, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
	for _, claim := range s.Claims() {
		s.Tolerate(s.Cluster.PersistentVolumeClaims(namespace).Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
	}
	for _, pv := range s.Volumes() {
		s.Tolerate(s.Cluster.PersistentVolumes().Delete(s.Context, pv.Name, metav1.DeleteOptions{}))
	}
	s.Log("the last objects are deleted")
	s.work(6)
	for _, pod := range s.Pods() {
		s.Fail("%s is left, with the finalizers %s", pod.Name, pod.Finalizers)
	}
	for _, claim := range s.Claims() {
		s.Fail("claim %s is left, with the finalizers %s", claim.Name, claim.Finalizers)
	}
	for _, pv := range s.Volumes() {
		s.Fail("volume %s is left, %s, with the finalizers %s", pv.Name, pv.Status.Phase, pv.Finalizers)
	}
}

// work lets all controllers work for a number of ten minutes.
func (s *simulation) work(n int) {
	for range n {
		s.RestartCrashed()
		s.collectGarbage()
		for range 5 * len(s.Volumes()) {
			s.bind()
		}
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

// checkProtection checks that objects that live are protected, and that those in deletion are used.
func (s *simulation) checkProtection() {
	pods, claims := s.Pods(), s.Claims()
	for _, claim := range claims {
		isUsed := slices.ContainsFunc(pods, func(pod v1.Pod) bool { return keeps(&pod, &claim) })
		s.checkObject(&claim, isUsed)
	}
	for _, pv := range s.Volumes() {
		ref := pv.Spec.ClaimRef
		isUsed := pv.Status.Phase == v1.VolumeBound || ref != nil && slices.ContainsFunc(claims, func(c v1.PersistentVolumeClaim) bool { return c.UID == ref.UID })
		s.checkObject(&pv, isUsed)
	}
}

func (s *simulation) checkObject(object metav1.Object, isUsed bool) {
	switch {
	case object.GetDeletionTimestamp() == nil && !isProtected(object):
		s.Fail("%s is not protected", object.GetName())
	case object.GetDeletionTimestamp() != nil && !isUsed:
		s.Fail("%s has not ended, with the finalizers %s", object.GetName(), object.GetFinalizers())
	}
}

// keeps reports whether a pod on a node names a claim or owns it.
func keeps(pod *v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return pod.Spec.NodeName != "" && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name ||
			v.Ephemeral != nil && metav1.IsControlledBy(claim, pod)
	})
}

// checkEphemeral checks that each pod that lives has the claim of its ephemeral volume, unless another
// claim has the name.
func (s *simulation) checkEphemeral() {
	claims := s.Claims()
	for _, pod := range s.Pods() {
		hasClaim := slices.ContainsFunc(claims, func(c v1.PersistentVolumeClaim) bool { return c.Name == pod.Name+"-data" })
		isEphemeral := slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil })
		if pod.DeletionTimestamp == nil && isEphemeral && !hasClaim {
			s.Fail("%s lacks its claim", pod.Name)
		}
	}
}
