package protect_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/protect"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// step takes a step at random.
func (s *simulation) step() {
	switch n := s.IntN(100); {
	case n < 10:
		s.createClaim()
	case n < 20:
		s.deleteClaim()
	case n < 30:
		s.createPod()
	case n < 38:
		s.schedule()
	case n < 46:
		s.startPods()
	case n < 56:
		s.endPod()
	case n < 60:
		s.createVolume()
	case n < 64:
		s.deleteVolume()
	case n < 76:
		s.bind()
	case n < 78:
		s.takeFinalizer()
	case n < 80:
		s.collectGarbage()
	case n < 83:
		s.Restart()
	case n < 87:
		s.Disturb()
	case n < 91:
		s.Recover()
	default:
		s.Pass()
	}
}

// createClaim creates a claim of one of few names, also of those of ephemeral volumes.
func (s *simulation) createClaim() {
	name := fmt.Sprint("claim-", s.IntN(4))
	if s.IntN(6) == 0 {
		name = fmt.Sprintf("pod-%d-data", s.IntN(4))
	}
	s.Log("create claim %s", name)
	_, err := s.Cluster.PersistentVolumeClaims(namespace).Create(s.Context, newClaim(name), metav1.CreateOptions{})
	s.Tolerate(err)
}

func (s *simulation) deleteClaim() {
	if claim, ok := simtest.One(s.Rand, s.Claims()); ok {
		s.Log("delete claim %s, UID %s", claim.Name, claim.UID)
		s.Tolerate(s.Cluster.PersistentVolumeClaims(namespace).Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
	}
}

// createPod creates a pod of one of few names, with named claims, an ephemeral volume, or both.
func (s *simulation) createPod() {
	var claims []string
	for range s.IntN(3) {
		if name := fmt.Sprint("claim-", s.IntN(4)); !slices.Contains(claims, name) {
			claims = append(claims, name)
		}
	}
	pod := newPod(fmt.Sprint("pod-", s.IntN(4)), claims...)
	if s.IntN(2) == 0 {
		pod = withEphemeral(pod, "data")
	}
	if s.IntN(4) == 0 {
		pod.Finalizers = []string{podFinalizer}
	}
	s.Log("create %s with %s and %d volumes", pod.Name, claims, len(pod.Spec.Volumes))
	_, err := s.Cluster.Pods(namespace).Create(s.Context, pod, metav1.CreateOptions{})
	s.Tolerate(err)
}

// podFinalizer keeps a pod until its owned claims are gone.
const podFinalizer = "example.com/claims"

// schedule assigns a pod to a node, by a view of the claims that may be late.
func (s *simulation) schedule() {
	if pod, ok := simtest.One(s.Rand, s.Pods()); ok {
		s.Log("schedule %s", pod.Name)
		s.Tolerate(s.Server.BindPod(namespace, pod.Name, "node"))
	}
}

// startPods starts the pods on nodes whose claims live, as nodes do.
func (s *simulation) startPods() {
	for _, pod := range s.Pods() {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Status.Phase != v1.PodPending || s.started[pod.UID] != nil {
			continue
		}
		if claims, ok := s.claimsOf(&pod); ok {
			s.Log("start %s, UID %s, with the claims %s", pod.Name, pod.UID, claims)
			s.started[pod.UID] = claims
		}
	}
}

// claimsOf returns the claims of a pod, and false if one is missing, in deletion, or of another owner.
func (s *simulation) claimsOf(pod *v1.Pod) (found []types.UID, ok bool) {
	all := s.Claims()
	for _, v := range pod.Spec.Volumes {
		name := pod.Name + "-" + v.Name
		if v.PersistentVolumeClaim != nil {
			name = v.PersistentVolumeClaim.ClaimName
		}
		i := slices.IndexFunc(all, func(c v1.PersistentVolumeClaim) bool { return c.Name == name })
		if i < 0 || all[i].DeletionTimestamp != nil || v.Ephemeral != nil && !metav1.IsControlledBy(&all[i], pod) {
			return nil, false
		}
		found = append(found, all[i].UID)
	}
	return found, true
}

// endPod ends a pod: its containers finish, a user deletes it, or a node shuts it down.
func (s *simulation) endPod() {
	pod, ok := simtest.One(s.Rand, s.Pods())
	if !ok {
		return
	}
	grace := int64(0)
	switch n := s.IntN(4); {
	case n == 0 && pod.Spec.NodeName != "":
		s.Log("finish %s", pod.Name)
		pod.Status.Phase = v1.PodSucceeded
		_, err := s.Cluster.Pods(namespace).UpdateStatus(s.Context, &pod, metav1.UpdateOptions{})
		s.Tolerate(err)
		return
	case n == 1:
		grace = 30
	}
	s.Log("delete %s, grace %d", pod.Name, grace)
	s.Tolerate(s.Cluster.Pods(namespace).Delete(s.Context, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
}

// collectGarbage deletes the claims whose owner is gone, and takes the finalizers of pods whose claims are
// gone.
func (s *simulation) collectGarbage() {
	s.Log("collect garbage")
	pods, claims := s.Pods(), s.Claims()
	for _, claim := range claims {
		owner := metav1.GetControllerOf(&claim)
		if owner == nil || slices.ContainsFunc(pods, func(p v1.Pod) bool { return p.UID == owner.UID && !isShutDown(&p) }) {
			continue
		}
		s.Tolerate(s.Cluster.PersistentVolumeClaims(namespace).Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
	}
	for _, pod := range pods {
		hasClaim := slices.ContainsFunc(claims, func(c v1.PersistentVolumeClaim) bool { return metav1.IsControlledBy(&c, &pod) })
		if isShutDown(&pod) && !hasClaim {
			pod.Finalizers = nil
			_, err := s.Cluster.Pods(namespace).Update(s.Context, &pod, metav1.UpdateOptions{})
			s.Tolerate(err)
		}
	}
}

// isShutDown reports whether only finalizers keep a pod.
func isShutDown(pod *v1.Pod) bool {
	return pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

func (s *simulation) createVolume() {
	s.number++
	s.Log("create volume pv-%d", s.number)
	_, err := s.Cluster.PersistentVolumes().Create(s.Context, newVolume(fmt.Sprint("pv-", s.number)), metav1.CreateOptions{})
	s.Tolerate(err)
}

func (s *simulation) deleteVolume() {
	if pv, ok := simtest.One(s.Rand, s.Volumes()); ok {
		s.Log("delete volume %s", pv.Name)
		s.Tolerate(s.Cluster.PersistentVolumes().Delete(s.Context, pv.Name, metav1.DeleteOptions{}))
	}
}

// takeFinalizer takes the finalizers of a claim or a volume that lives.
func (s *simulation) takeFinalizer() {
	if s.IntN(2) == 0 {
		if pv, ok := simtest.One(s.Rand, s.Volumes()); ok && pv.DeletionTimestamp == nil {
			s.Log("take the finalizers of %s", pv.Name)
			s.abandoned[pv.UID], pv.Finalizers = true, nil
			_, err := s.Cluster.PersistentVolumes().Update(s.Context, &pv, metav1.UpdateOptions{})
			s.Tolerate(err)
		}
		return
	}
	if claim, ok := simtest.One(s.Rand, s.Claims()); ok && claim.DeletionTimestamp == nil {
		s.Log("take the finalizers of %s", claim.Name)
		s.abandoned[claim.UID], claim.Finalizers = true, nil
		_, err := s.Cluster.PersistentVolumeClaims(namespace).Update(s.Context, &claim, metav1.UpdateOptions{})
		s.Tolerate(err)
	}
}

// latePods makes the pods of caches late, and the lists that permit it.
var latePods = simtest.Fault{Name: "late pods", Begin: func(s *simtest.Faults) func() {
	endEvents := s.Server.InjectEvents(apitest.EventFault{Resource: "pods", Delay: 5 * time.Minute})
	endLists := s.Server.StaleLists("")
	return func() {
		endEvents()
		endLists()
	}
}}

// bind makes the next write of the binder for one volume. The second write may follow from a view of the
// time of the first one.
func (s *simulation) bind() {
	claims := s.Claims()
	for i := range claims {
		if pv := s.reserved[claims[i].UID]; pv != nil {
			delete(s.reserved, claims[i].UID)
			s.setVolume(&claims[i], pv)
			return
		}
	}
	pv, ok := simtest.One(s.Rand, s.Volumes())
	if !ok {
		return
	}
	ref := pv.Spec.ClaimRef
	if ref == nil {
		s.reserve(&pv, claims)
		return
	}
	i := slices.IndexFunc(claims, func(c v1.PersistentVolumeClaim) bool { return c.UID == ref.UID })
	switch {
	case i < 0:
		s.setPhase(&pv, v1.VolumeReleased)
	case claims[i].Spec.VolumeName == "" && claims[i].DeletionTimestamp == nil:
		s.setVolume(&claims[i], &pv)
	case claims[i].Spec.VolumeName != pv.Name:
	case claims[i].Status.Phase != v1.ClaimBound:
		claims[i].Status.Phase = v1.ClaimBound
		_, err := s.Cluster.PersistentVolumeClaims(namespace).UpdateStatus(s.Context, &claims[i], metav1.UpdateOptions{})
		s.Tolerate(err)
	default:
		s.setPhase(&pv, v1.VolumeBound)
	}
}

// setVolume sets the volume of a claim without one.
func (s *simulation) setVolume(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return
	}
	s.Log("bind %s to %s", claim.Name, pv.Name)
	uid := claim.UID
	claim.Spec.VolumeName = pv.Name
	_, err := s.Cluster.PersistentVolumeClaims(namespace).Update(s.Context, claim, metav1.UpdateOptions{})
	if s.Tolerate(err); err == nil {
		s.bound[uid] = pv.UID
	}
}

// reserve reserves a volume for a claim without one.
func (s *simulation) reserve(pv *v1.PersistentVolume, claims []v1.PersistentVolumeClaim) {
	volumes := s.Volumes()
	claims = slices.DeleteFunc(claims, func(c v1.PersistentVolumeClaim) bool {
		return c.Spec.VolumeName != "" || c.DeletionTimestamp != nil || slices.ContainsFunc(volumes, func(other v1.PersistentVolume) bool {
			return other.Spec.ClaimRef != nil && other.Spec.ClaimRef.UID == c.UID
		})
	})
	claim, ok := simtest.One(s.Rand, claims)
	if !ok {
		return
	}
	s.Log("reserve %s for %s", pv.Name, claim.Name)
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}
	reserved, err := s.Cluster.PersistentVolumes().Update(s.Context, pv, metav1.UpdateOptions{})
	if s.Tolerate(err); err == nil && s.IntN(2) == 0 {
		s.reserved[claim.UID] = reserved
	}
}

func (s *simulation) setPhase(pv *v1.PersistentVolume, phase v1.PersistentVolumePhase) {
	s.Log("%s becomes %s", pv.Name, phase)
	pv.Status.Phase = phase
	_, err := s.Cluster.PersistentVolumes().UpdateStatus(s.Context, pv, metav1.UpdateOptions{})
	s.Tolerate(err)
}

// isProtected reports whether an object has a finalizer of protection.
func isProtected(object metav1.Object) bool {
	return slices.Contains(object.GetFinalizers(), protect.ClaimFinalizer) || slices.Contains(object.GetFinalizers(), protect.VolumeFinalizer)
}
