package provision_test

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// check checks that no claim has two volumes or has lost its storage, and that an object leads to
// each storage.
func (s *simulation) check() {
	owners := map[types.UID]string{}
	objects := map[string]string{} // the storages of the volumes
	for _, pv := range s.Volumes() {
		objects[pv.Name] = pv.Annotations[volume.StorageAnnotation]
		if other, ok := owners[pv.Spec.ClaimRef.UID]; ok {
			s.Fail("the claim %s has the volumes %s and %s", pv.Spec.ClaimRef.Name, pv.Name, other)
		}
		owners[pv.Spec.ClaimRef.UID] = pv.Name
	}
	guarded := map[string]bool{}
	for _, claim := range s.Claims() {
		if claim.Spec.DataSourceRef != nil && (claim.Spec.VolumeName != "" || s.hasStorage("pvc-"+string(claim.UID), "")) {
			s.Fail("the claim %s has an empty volume instead of its source", claim.Name)
		}
		if slices.Contains(claim.Finalizers, provision.ClaimFinalizer) {
			guarded["pvc-"+string(claim.UID)] = true
		}
		if name := claim.Spec.VolumeName; name != "" && objects[name] != "" && !s.hasStorage(name, objects[name]) && !s.isDiscarded(&claim) {
			s.Fail("the storage %s of the claim %s is lost", name, claim.Name)
		}
	}
	if s.hasTwins && !s.isCalm { // a twin releases what the other one remembers
		return
	}
	for _, storage := range s.storages {
		for name := range storage.all() {
			if objects[name] != storage.name() && !guarded[name] && !storage.isAbandoned(name) {
				s.Fail("no object leads to the volume %s of %s", name, storage.name())
			}
		}
	}
}

// hasStorage reports whether a volume has storage, in the system with a name or, if the name is "", in any.
func (s *simulation) hasStorage(volume, name string) bool {
	return slices.ContainsFunc(s.storages, func(f *simStorage) bool { return (name == "" || f.name() == name) && f.has(volume) })
}

// isDiscarded reports whether a twin discards the storage of a claim: a twin provisions it again.
func (s *simulation) isDiscarded(claim *v1.PersistentVolumeClaim) bool {
	return s.hasTwins && (!s.isCalm || claim.DeletionTimestamp != nil) && claim.Annotations[provision.DiscardAnnotation] != ""
}

// checkDeletion checks that the storage of a volume may be deleted by the present state of the API
// server. The stored volume may be in another storage.
func (s *simulation) checkDeletion(pv *v1.PersistentVolume, f *simStorage) {
	stored, err := s.Cluster.PersistentVolumes().Get(s.Context, pv.Name, metav1.GetOptions{})
	if err == nil && stored.Annotations[volume.StorageAnnotation] != f.name() {
		return
	}
	if err := mayDelete(s.Context, s.Cluster, pv.Name); err != nil {
		s.Fail("deletion of %s: %v", pv.Name, err)
	}
	for _, pod := range s.Pods() {
		if pod.Annotations["claim"] == string(pv.Spec.ClaimRef.UID) {
			s.Fail("deletion of %s: pod %s uses it", pv.Name, pod.Name)
		}
	}
}

// calmDown ends the faults and checks the end of all work.
func (s *simulation) calmDown() {
	s.RecoverAll()
	for _, storage := range s.storages {
		storage.heal()
	}
	for n := range 2 {
		_, _ = s.Cluster.Nodes().Create(s.Context, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + string(rune('0'+n))}}, metav1.CreateOptions{})
	}
	s.Log("calm")
	if !s.hasTwins { // with the addresses of the storage in its configuration
		s.Restart()
	}
	s.changeClasses()
	s.work(12)
	s.isCalm = true
	s.check()
	s.checkBound()
	s.checkWebVolumes()
	s.checkIdle()
	if s.HasFailed() {
		return
	}
	for _, pod := range s.Pods() {
		s.Must(s.Cluster.Pods(namespace).Delete(s.Context, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
	for _, claim := range s.Claims() {
		s.Must(s.Cluster.PersistentVolumeClaims(namespace).Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
	}
	s.Log("the last claims are deleted")
	s.work(12)
	s.checkEnd()
}

// work lets all controllers work for a number of ten minutes.
func (s *simulation) work(n int) {
	for range n {
		s.RestartCrashed()
		s.bindVolumes()
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

// changeClasses ends the pauses of all claims.
func (s *simulation) changeClasses() {
	list, err := s.Cluster.StorageClasses().List(s.Context, metav1.ListOptions{})
	s.Must(err)
	for _, class := range list.Items {
		class.Labels = map[string]string{"changed": "true"}
		_, err := s.Cluster.StorageClasses().Update(s.Context, &class, metav1.UpdateOptions{})
		s.Must(err)
	}
}

// checkBound checks that each claim is bound.
func (s *simulation) checkBound() {
	for _, claim := range s.Claims() {
		if claim.DeletionTimestamp == nil && claim.Spec.VolumeName == "" && claim.Spec.DataSourceRef == nil {
			s.Fail("claim %s, UID %s, is not bound", claim.Name, claim.UID)
		}
	}
}

// checkIdle checks that an idle controller makes no calls.
func (s *simulation) checkIdle() {
	if slices.ContainsFunc(s.Volumes(), func(pv v1.PersistentVolume) bool {
		return pv.Status.Phase == v1.VolumeReleased && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete
	}) {
		return // a pod may use a volume whose claim is gone
	}
	s.CheckIdle()
}

// checkEnd checks that nothing is left of deleted claims but the volumes of the policy Retain.
func (s *simulation) checkEnd() {
	for _, claim := range s.Claims() {
		s.Fail("claim %s is left, with the finalizers %s", claim.Name, claim.Finalizers)
	}
	for _, pv := range s.Volumes() {
		if pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
			s.Fail("volume %s is left, %s, with the finalizers %s", pv.Name, pv.Status.Phase, pv.Finalizers)
		}
	}
}
