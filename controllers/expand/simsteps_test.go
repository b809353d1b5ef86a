package expand_test

import (
	"fmt"

	"github.com/volumekit/volumekit/controllers/expand"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step takes a step at random.
func (s *simulation) step() {
	switch n := s.IntN(100); {
	case n < 30:
		s.changeRequest()
	case n < 55:
		s.nodeStep()
	case n < 60:
		s.replaceClaim()
	case n < 65:
		s.Restart()
	case n < 72:
		s.Disturb()
	case n < 80:
		s.Recover()
	default:
		s.Pass()
	}
}

const pairs = 3

// createPairs creates claims that are bound to volumes.
func (s *simulation) createPairs() {
	yes := true
	_, err := s.Cluster.StorageClasses().Create(s.Context, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "growing"}, Provisioner: driver, AllowVolumeExpansion: &yes,
	}, metav1.CreateOptions{})
	s.Must(err)
	for i := range pairs {
		name, one := fmt.Sprint("disk-", i), resource.MustParse("1Gi")
		s.storage.disks[name] = &simDisk{size: one, files: one, onNode: s.IntN(2) == 0}
		_, err := s.Cluster.PersistentVolumes().Create(s.Context, &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1.PersistentVolumeSpec{
				StorageClassName: "growing", Capacity: v1.ResourceList{v1.ResourceStorage: one},
				AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				PersistentVolumeSource: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/" + name}},
			},
		}, metav1.CreateOptions{})
		s.Must(err)
		s.bind(i)
	}
}

// bind creates a claim and binds it, as the binder does.
func (s *simulation) bind(i int) {
	class, modes, disk := "growing", []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, fmt.Sprint("disk-", i)
	claim, err := s.Cluster.PersistentVolumeClaims(namespace).Create(s.Context, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("claim-", i)},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: modes, VolumeName: disk,
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	s.Must(err)
	var pv *v1.PersistentVolume
	for {
		pv, err = s.Cluster.PersistentVolumes().Get(s.Context, disk, metav1.GetOptions{})
		s.Must(err)
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}
		if pv, err = s.Cluster.PersistentVolumes().Update(s.Context, pv, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			break
		}
	}
	s.Must(err)
	capacity := pv.Spec.Capacity[v1.ResourceStorage]
	if before, err := resource.ParseQuantity(pv.Annotations[expand.CapacityBeforeAnnotation]); err == nil {
		capacity = before
	}
	claim.Status = v1.PersistentVolumeClaimStatus{
		Phase: v1.ClaimBound, AccessModes: modes, Capacity: v1.ResourceList{v1.ResourceStorage: capacity},
	}
	_, err = s.Cluster.PersistentVolumeClaims(namespace).UpdateStatus(s.Context, claim, metav1.UpdateOptions{})
	s.Must(err)
}

// replaceClaim deletes a claim, and gives its volume to a new one of the name.
func (s *simulation) replaceClaim() {
	i := s.IntN(pairs)
	s.Log("replace claim-%d", i)
	claims := s.Cluster.PersistentVolumeClaims(namespace)
	claim, err := claims.Get(s.Context, fmt.Sprint("claim-", i), metav1.GetOptions{})
	s.Must(err)
	claim.Finalizers = nil
	if _, err = claims.Update(s.Context, claim, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
		return
	}
	s.Must(err)
	s.Must(claims.Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
	s.bind(i)
}

func (s *simulation) volume(name string) *v1.PersistentVolume {
	pv, err := s.Cluster.PersistentVolumes().Get(s.Context, name, metav1.GetOptions{})
	s.Must(err)
	return pv
}

// changeRequest raises or lowers the request of a claim: to any size above the capacity.
func (s *simulation) changeRequest() {
	claims := s.Claims()
	claim := &claims[s.IntN(len(claims))]
	s.requestFor(claim, resource.MustParse(fmt.Sprint(1+s.IntN(60), "Gi")))
}

func (s *simulation) requestFor(claim *v1.PersistentVolumeClaim, size resource.Quantity) {
	if size.Cmp(claim.Status.Capacity[v1.ResourceStorage]) <= 0 {
		return
	}
	s.Log("%s requests %s", claim.Name, size.String())
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: size}
	_, err := s.Cluster.PersistentVolumeClaims(namespace).Update(s.Context, claim, metav1.UpdateOptions{})
	s.Tolerate(err)
}

// nodeStep begins, finishes or gives up the expansion of a claim, as its node does.
func (s *simulation) nodeStep() {
	claims := s.Claims()
	claim := &claims[s.IntN(len(claims))]
	if !s.waitsForNode(claim) {
		return
	}
	n := s.IntN(4)
	if claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == "" {
		n = 3 // the node grows a volume that it mounts, and gives up only the part of an expansion
	}
	switch n {
	case 0:
		s.setNodeState(claim, v1.PersistentVolumeClaimNodeResizeInProgress)
	case 1:
		s.setNodeState(claim, v1.PersistentVolumeClaimNodeResizeInfeasible)
	default:
		s.finishOnNode(claim)
	}
}

// waitsForNode reports whether the node has a part in the expansion of a claim, or grows its volume when it
// mounts it.
func (s *simulation) waitsForNode(claim *v1.PersistentVolumeClaim) bool {
	switch claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] {
	case v1.PersistentVolumeClaimNodeResizePending, v1.PersistentVolumeClaimNodeResizeInProgress:
		return true
	case "":
		capacity := s.volume(claim.Spec.VolumeName).Spec.Capacity[v1.ResourceStorage]
		return capacity.Cmp(claim.Status.Capacity[v1.ResourceStorage]) > 0
	}
	return false
}

func (s *simulation) setNodeState(claim *v1.PersistentVolumeClaim, state v1.ClaimResourceStatus) {
	s.Log("%s is %s", claim.Name, state)
	claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: state}
	_, err := s.Cluster.PersistentVolumeClaims(namespace).UpdateStatus(s.Context, claim, metav1.UpdateOptions{})
	s.Tolerate(err)
}

// finishOnNode grows the file system of a claim to the capacity of its volume.
func (s *simulation) finishOnNode(claim *v1.PersistentVolumeClaim) {
	pv := s.volume(claim.Spec.VolumeName)
	size := pv.Spec.Capacity[v1.ResourceStorage]
	s.Log("the node grows %s to %s", claim.Name, size.String())
	s.storage.growFiles(pv.Name, size)
	claim.Status.Capacity = v1.ResourceList{v1.ResourceStorage: size}
	claim.Status.AllocatedResourceStatuses, claim.Status.Conditions = nil, nil
	_, err := s.Cluster.PersistentVolumeClaims(namespace).UpdateStatus(s.Context, claim, metav1.UpdateOptions{})
	s.Tolerate(err)
}
