package provision_test

import (
	"fmt"
	"slices"
	"testing/synctest"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// simClasses are the classes: their policy, and whether they wait for a consumer.
var simClasses = map[string]struct {
	policy   v1.PersistentVolumeReclaimPolicy
	consumer bool
}{
	"delete": {v1.PersistentVolumeReclaimDelete, false}, "retain": {v1.PersistentVolumeReclaimRetain, false}, "late": {v1.PersistentVolumeReclaimDelete, true},
}

var simClassNames = []string{"delete", "delete", "late", "retain"}

func (s *simulation) createClasses() {
	for name, c := range simClasses {
		class := newClass(name)
		class.ReclaimPolicy = &c.policy
		if c.consumer {
			mode := storagev1.VolumeBindingWaitForFirstConsumer
			class.VolumeBindingMode = &mode
		}
		if name == "delete" {
			class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		}
		_, err := s.Cluster.StorageClasses().Create(s.Context, class, metav1.CreateOptions{})
		s.Must(err)
	}
	for n := range 2 {
		_, err := s.Cluster.Nodes().Create(s.Context, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", n)}}, metav1.CreateOptions{})
		s.Must(err)
	}
}

// step takes a step at random.
func (s *simulation) step() {
	switch n := s.IntN(100); {
	case n < 14:
		for range 1 + s.IntN(3) {
			s.createClaim()
		}
	case n < 24:
		s.deleteClaim()
	case n < 44:
		s.bindVolumes()
	case n < 52:
		s.schedule()
	case n < 56:
		s.createPod()
	case n < 58:
		s.deletePod()
	case n < 59:
		s.createWebPod()
	case n < 61:
		s.replaceWebPod()
	case n < 65:
		s.changePolicy()
	case n < 67:
		s.deleteVolume()
	case n < 69:
		s.replaceNode()
	case n < 71:
		s.releaseVolume()
	case n < 73 && !s.hasTwins:
		s.moveStorage()
	case n < 76 && !s.hasTwins:
		s.Restart()
	case n < 80:
		s.Disturb()
	case n < 85:
		s.Recover()
	default:
		s.Pass()
	}
}

// createClaim creates a claim of one of few names.
func (s *simulation) createClaim() {
	claim := newClaim(fmt.Sprint("claim-", s.IntN(6)), simClassNames[s.IntN(len(simClassNames))])
	switch s.IntN(16) {
	case 0, 1:
		claim.Spec.StorageClassName = nil
	case 2: // without support
		from("", "PersistentVolumeClaim")(claim)
	case 3: // of a populator
		from("example.com", "Backup")(claim)
	}
	created, err := s.Cluster.PersistentVolumeClaims(namespace).Create(s.Context, claim, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return
	}
	s.Must(err)
	s.Log("create %s, UID %s, class %s, source %v", created.Name, created.UID, *created.Spec.StorageClassName, created.Spec.DataSourceRef)
}

// deleteClaim deletes a claim. At times a user takes the finalizer of protection while a pod runs.
func (s *simulation) deleteClaim() {
	claim, ok := simtest.One(s.Rand, s.Claims())
	if !ok {
		return
	}
	s.Log("delete %s", claim.Name)
	s.Tolerate(s.Cluster.PersistentVolumeClaims(namespace).Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
	if s.IntN(4) == 0 {
		s.Log("take the protection of %s", claim.Name)
		s.unprotectClaim(claim.Name)
	}
}

// unprotectClaim removes the finalizer of protection from a claim in deletion.
func (s *simulation) unprotectClaim(name string) {
	claim, err := s.Cluster.PersistentVolumeClaims(namespace).Get(s.Context, name, metav1.GetOptions{})
	if err != nil || claim.DeletionTimestamp == nil {
		return
	}
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == claimProtection })
	_, err = s.Cluster.PersistentVolumeClaims(namespace).Update(s.Context, claim, metav1.UpdateOptions{})
	s.Tolerate(err)
}

// bindVolumes does the work of the binder and of the protection controllers.
func (s *simulation) bindVolumes() {
	s.Log("bind")
	s.Tolerate(bindAll(s.Context, s.Cluster))
	s.claimWebPods()
	pods := s.Pods()
	for _, claim := range s.Claims() {
		isUsed := slices.ContainsFunc(pods, func(pod v1.Pod) bool { return uses(pod, &claim) })
		if !isUsed && claim.DeletionTimestamp != nil {
			s.unprotectClaim(claim.Name)
		}
	}
	unprotectVolumes(s.Context, s.Cluster)
}

// schedule selects a node for a claim that waits for one.
func (s *simulation) schedule() {
	for _, claim := range s.Claims() {
		class := claim.Spec.StorageClassName
		if class == nil || !simClasses[*class].consumer || claim.Annotations[provision.SelectedNodeAnnotation] != "" || claim.DeletionTimestamp != nil {
			continue
		}
		claim.Annotations[provision.SelectedNodeAnnotation] = fmt.Sprint("node-", s.IntN(2))
		s.Log("schedule %s to %s", claim.Name, claim.Annotations[provision.SelectedNodeAnnotation])
		_, err := s.Cluster.PersistentVolumeClaims(namespace).Update(s.Context, &claim, metav1.UpdateOptions{})
		s.Tolerate(err)
	}
}

// replaceNode deletes a node, or creates it again. Of twins one alone may find the node missing.
func (s *simulation) replaceNode() {
	name := fmt.Sprint("node-", s.IntN(2))
	s.Log("replace %s", name)
	if err := s.Cluster.Nodes().Delete(s.Context, name, metav1.DeleteOptions{}); err != nil {
		_, err = s.Cluster.Nodes().Create(s.Context, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		s.Tolerate(err)
	}
}

// claimOf returns the name of the claim that a pod uses.
func claimOf(pod v1.Pod) string { return claimindex.NameOf(&pod, &pod.Spec.Volumes[0]) }

// createPod creates a pod that uses a bound claim.
func (s *simulation) createPod() {
	claim, ok := simtest.One(s.Rand, s.Claims())
	if !ok || claim.Status.Phase != v1.ClaimBound || claim.DeletionTimestamp != nil || len(claim.OwnerReferences) > 0 {
		return
	}
	s.number++
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("pod-", s.number)}}
	pod.Spec.NodeName = "node-0"
	pod.Spec.Containers = []v1.Container{{Name: "c", Image: "i"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}}
	pod.Annotations = map[string]string{"claim": string(claim.UID)}
	s.Log("create %s with %s", pod.Name, claim.Name)
	_, err := s.Cluster.Pods(namespace).Create(s.Context, pod, metav1.CreateOptions{})
	s.Tolerate(err)
}

func (s *simulation) deletePod() {
	if pod, ok := simtest.One(s.Rand, s.Pods()); ok {
		s.Log("delete %s", pod.Name)
		s.Tolerate(s.Cluster.Pods(namespace).Delete(s.Context, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
}

// changePolicy changes the policy of a volume, while no controller is between its last read of the
// policy and the deletion.
func (s *simulation) changePolicy() {
	synctest.Wait()
	pv, ok := simtest.One(s.Rand, s.Volumes())
	if !ok {
		return
	}
	before := pv.Spec.PersistentVolumeReclaimPolicy
	pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	if before == v1.PersistentVolumeReclaimRetain {
		pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
	}
	if pv.DeletionTimestamp != nil { // the finalizer goes and does not come again
		s.abandon(pv.Name)
	}
	s.Log("policy of %s: %s", pv.Name, pv.Spec.PersistentVolumeReclaimPolicy)
	_, err := s.Cluster.PersistentVolumes().Update(s.Context, &pv, metav1.UpdateOptions{})
	s.Tolerate(err)
}

// deleteVolume deletes the object of a volume. Without the finalizer the storage is abandoned.
func (s *simulation) deleteVolume() {
	pv, ok := simtest.One(s.Rand, s.Volumes())
	if !ok {
		return
	}
	if !slices.Contains(pv.Finalizers, provision.VolumeFinalizer) || pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
		s.abandon(pv.Name)
	}
	s.Log("delete the object %s", pv.Name)
	s.Tolerate(s.Cluster.PersistentVolumes().Delete(s.Context, pv.Name, metav1.DeleteOptions{}))
}

// moveStorage moves the storage to another address.
func (s *simulation) moveStorage() {
	s.storages[0].move()
	s.Log("move to %s", s.storages[0].address())
	s.Restart()
}

// abandon records that users have left the storage of a volume.
func (s *simulation) abandon(name string) {
	for _, storage := range s.storages {
		storage.abandon(name)
	}
}

// releaseVolume releases a volume whose claim lives: a binder has taken the claim for gone.
func (s *simulation) releaseVolume() {
	pv, ok := simtest.One(s.Rand, s.Volumes())
	if !ok || pv.Status.Phase != v1.VolumeBound {
		return
	}
	s.Log("release %s, of the claim %s", pv.Name, pv.Spec.ClaimRef.Name)
	s.Tolerate(setPhase(s.Context, s.Cluster, &pv, v1.VolumeReleased))
}

// refusedObjects refuses objects for good. Of twins one alone may be refused.
var refusedObjects = simtest.Fault{Name: "refused objects", Begin: simtest.Injected(apitest.Fault{
	Call: apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes"}, Share: 0.3, Failure: refusal,
})}
