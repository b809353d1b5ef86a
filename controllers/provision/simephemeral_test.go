package provision_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/controllers/internal/simtest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webPod begins the names of pods with an ephemeral volume.
const webPod = "web-"

// createWebPod creates a pod with an ephemeral volume, of one of few names.
func (s *simulation) createWebPod() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(webPod, s.IntN(2))}}
	pod.Spec.NodeName = "node-0"
	pod.Spec.Containers = []v1.Container{{Name: "c", Image: "i"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
		VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: newClaim("", "delete").Spec},
	}}}}
	_, err := s.Cluster.Pods(namespace).Create(s.Context, pod, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		s.Must(err)
		s.Log("create %s", pod.Name)
	}
}

// replaceWebPod deletes a pod with an ephemeral volume, and creates it again with its name.
func (s *simulation) replaceWebPod() {
	pods := slices.DeleteFunc(s.Pods(), func(pod v1.Pod) bool { return !isWebPod(&pod) })
	if pod, ok := simtest.One(s.Rand, pods); ok {
		s.Log("replace %s", pod.Name)
		s.Tolerate(s.Cluster.Pods(namespace).Delete(s.Context, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		s.Pass()
		s.createWebPod()
	}
}

func isWebPod(pod *v1.Pod) bool { return strings.HasPrefix(pod.Name, webPod) }

// claimWebPods does the work of the garbage collector, of the controller for ephemeral volumes, and of the nodes, which
// start a pod once its claim is bound.
func (s *simulation) claimWebPods() {
	pods, claims := map[string]*v1.Pod{}, map[string]*v1.PersistentVolumeClaim{}
	for _, pod := range s.Pods() {
		if isWebPod(&pod) {
			pods[claimOf(pod)] = &pod
		}
	}
	for _, claim := range s.Claims() {
		claims[claim.Name] = &claim
		pod := pods[claim.Name]
		if len(claim.OwnerReferences) > 0 && claim.DeletionTimestamp == nil && (pod == nil || !metav1.IsControlledBy(&claim, pod)) {
			s.Tolerate(s.Cluster.PersistentVolumeClaims(namespace).Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		pod := pods[name]
		switch claim := claims[name]; {
		case claim == nil:
			claim = newClaim(name, "delete")
			claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
			created, err := s.Cluster.PersistentVolumeClaims(namespace).Create(s.Context, claim, metav1.CreateOptions{})
			s.Must(err)
			s.Log("create %s, UID %s, of a pod", name, created.UID)
		case metav1.IsControlledBy(claim, pod) && claim.Status.Phase == v1.ClaimBound && claim.DeletionTimestamp == nil && pod.Annotations == nil:
			pod.Annotations = map[string]string{"claim": string(claim.UID)}
			_, err := s.Cluster.Pods(namespace).Update(s.Context, pod, metav1.UpdateOptions{})
			s.Tolerate(err)
		}
	}
}

// uses reports whether a pod keeps a claim in deletion.
func uses(pod v1.Pod, claim *v1.PersistentVolumeClaim) bool {
	return claimOf(pod) == claim.Name && (!isWebPod(&pod) || metav1.IsControlledBy(claim, &pod))
}

// checkWebVolumes checks that no storage is left of a pod that was replaced. A pod that is older than a volume may use
// it, by an earlier claim.
func (s *simulation) checkWebVolumes() {
	pods := map[string]*v1.Pod{}
	for _, pod := range s.Pods() {
		pods[claimOf(pod)] = &pod
	}
	for _, pv := range s.Volumes() {
		pod := pods[pv.Spec.ClaimRef.Name]
		isLeft := pv.Status.Phase == v1.VolumeReleased && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete
		if isLeft && pod != nil && isWebPod(pod) && pv.CreationTimestamp.Before(&pod.CreationTimestamp) {
			s.Fail("volume %s is left, of the claim %s of a pod that was replaced", pv.Name, pv.Spec.ClaimRef.Name)
		}
	}
}
