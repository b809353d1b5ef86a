package bind_test

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const external = "example.com/external"

// simProvisioners are the provisioners of the classes. The claims of late wait for a consumer.
var simProvisioners = map[string]string{"plugin": pluginName, "external": external, "late": "kubernetes.io/no-provisioner"}

var simClassNames = []string{"plugin", "external", "late"}

// step takes a step at random.
func (s *simulation) step() {
	switch n := s.IntN(100); {
	case n < 14:
		s.createVolume()
	case n < 30:
		s.createClaim()
	case n < 39:
		s.deleteClaim()
	case n < 43:
		s.deleteVolume()
	case n < 49:
		s.schedule()
	case n < 55:
		s.provision(2)
	case n < 61:
		s.createPod()
	case n < 66:
		if pod, ok := simtest.One(s.Rand, s.Pods()); ok {
			s.deletePod(pod)
		}
	case n < 74:
		s.editVolume()
	case n < 76:
		s.editClaim()
	case n < 77:
		s.editClass()
	case n < 79:
		s.lateView = s.Claims()
	case n < 82:
		s.Restart()
	case n < 87:
		s.Disturb()
	case n < 91:
		s.Recover()
	default:
		s.Pass()
	}
}

func (s *simulation) class() string {
	return []string{"", "", "", "plugin", "external", "late"}[s.IntN(6)]
}

func (s *simulation) size() string { return fmt.Sprint(1+s.IntN(3), "Gi") }

var simLabels = []map[string]string{nil, {"disk": "fast"}}

var simPolicies = []v1.PersistentVolumeReclaimPolicy{
	v1.PersistentVolumeReclaimRetain, v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle, v1.PersistentVolumeReclaimRecycle,
}

// createVolume creates a static volume of one of few names.
func (s *simulation) createVolume() {
	pv := newVolume(s.name("volume"), s.size())
	pv.Labels = simLabels[s.IntN(2)]
	pv.Spec.PersistentVolumeReclaimPolicy = simPolicies[s.IntN(4)]
	pv.Spec.StorageClassName = s.class()
	if s.IntN(6) == 0 {
		pv.Spec.ClaimRef = s.reference()
	}
	_, err := s.Cluster.PersistentVolumes().Create(s.Context, pv, metav1.CreateOptions{})
	if s.Tolerate(err) {
		s.Log("create %s, class %q, %s, of %v", pv.Name, pv.Spec.StorageClassName, pv.Spec.PersistentVolumeReclaimPolicy, pv.Spec.ClaimRef)
		s.plugin.reset(pv.Name)
	}
}

// reference returns a reference to a claim that exists, or to a name of a claim.
func (s *simulation) reference() *v1.ObjectReference {
	if claim, ok := simtest.One(s.Rand, s.Claims()); ok && s.IntN(2) == 0 {
		return &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	}
	return &v1.ObjectReference{Namespace: namespace, Name: s.name("claim")}
}

// createClaim creates a claim of one of few names.
func (s *simulation) createClaim() {
	claim := newClaim(s.name("claim"), s.size())
	*claim.Spec.StorageClassName = s.class()
	if s.IntN(6) == 0 {
		claim.Spec.StorageClassName = nil
	}
	if s.IntN(8) == 0 {
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: simLabels[1]}
	}
	if s.IntN(8) == 0 {
		claim.Spec.VolumeName = s.name("volume")
	}
	created, err := s.Cluster.PersistentVolumeClaims(namespace).Create(s.Context, claim, metav1.CreateOptions{})
	if s.Tolerate(err) {
		class := "none"
		if created.Spec.StorageClassName != nil {
			class = *created.Spec.StorageClassName
		}
		s.Log("create %s, UID %s, class %q, names %q", created.Name, created.UID, class, created.Spec.VolumeName)
	}
}

// deleteClaim deletes a claim that no pod uses, or by force.
func (s *simulation) deleteClaim() {
	claim, ok := simtest.One(s.Rand, s.Claims())
	if !ok {
		return
	}
	s.Log("delete %s", claim.Name)
	s.Tolerate(s.Cluster.PersistentVolumeClaims(namespace).Delete(s.Context, claim.Name, metav1.DeleteOptions{}))
	s.unprotect(s.IntN(4) == 0)
}

// claimOf returns the name of the claim that a pod uses.
func claimOf(pod v1.Pod) string { return pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName }

// unprotect does the work of the controllers of protection, unless these run. By force it also takes the
// finalizers of used claims in deletion, as users do.
func (s *simulation) unprotect(byForce bool) {
	if s.protects && !byForce {
		return
	}
	pods := s.Pods()
	for _, claim := range s.Claims() {
		isUsed := slices.ContainsFunc(pods, func(pod v1.Pod) bool { return claimOf(pod) == claim.Name })
		if claim.DeletionTimestamp != nil && (!isUsed || byForce) && slices.Contains(claim.Finalizers, claimProtection) {
			claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == claimProtection })
			_, err := s.Cluster.PersistentVolumeClaims(namespace).Update(s.Context, &claim, metav1.UpdateOptions{})
			s.Tolerate(err)
		}
	}
	if !s.protects {
		s.Must(unprotectVolumes(s.Context, s.Cluster))
	}
}

// deleteVolume deletes the object of a volume. By force a user takes all its finalizers.
func (s *simulation) deleteVolume() {
	pv, ok := simtest.One(s.Rand, s.Volumes())
	if !ok {
		return
	}
	byForce := s.IntN(3) == 0
	s.Log("delete %s, by force: %v", pv.Name, byForce)
	if byForce || !slices.Contains(pv.Finalizers, bind.PluginFinalizer) || pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
		s.plugin.abandon(pv.Name)
	}
	s.Tolerate(s.Cluster.PersistentVolumes().Delete(s.Context, pv.Name, metav1.DeleteOptions{}))
	s.unprotect(false)
	if byForce {
		s.updateVolume(pv.Name, func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
	}
}

// updateVolume changes the present state of a volume that exists.
func (s *simulation) updateVolume(name string, change func(*v1.PersistentVolume)) (isDone bool) {
	pv, err := s.Cluster.PersistentVolumes().Get(s.Context, name, metav1.GetOptions{})
	if err != nil {
		return s.Tolerate(err)
	}
	change(pv)
	_, err = s.Cluster.PersistentVolumes().Update(s.Context, pv, metav1.UpdateOptions{})
	return s.Tolerate(err)
}

// view returns the claims as the scheduler and the external provisioner see them.
func (s *simulation) view() []v1.PersistentVolumeClaim {
	if s.lateView != nil && s.IntN(2) == 0 {
		return s.lateView
	}
	return s.Claims()
}

// schedule reserves a volume for a claim that waits for a consumer, as the scheduler does.
func (s *simulation) schedule() {
	volumes := s.Volumes()
	for _, claim := range s.view() {
		if class := claim.Spec.StorageClassName; class == nil || *class != "late" || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
			continue
		}
		for _, pv := range volumes {
			if pv.Spec.ClaimRef != nil || pv.Spec.StorageClassName != "late" || pv.Status.Phase != v1.VolumeAvailable || s.IntN(2) == 0 {
				continue
			}
			s.Log("reserve %s for %s", pv.Name, claim.Name)
			pv.Spec.ClaimRef = &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim.Name, UID: claim.UID}
			metav1.SetMetaDataAnnotation(&pv.ObjectMeta, bind.BoundByControllerAnnotation, "yes")
			_, err := s.Cluster.PersistentVolumes().Update(s.Context, &pv, metav1.UpdateOptions{})
			s.Tolerate(err)
			break
		}
	}
}

// provision does the work of the external provisioner for one of n claims, and for released volumes.
func (s *simulation) provision(n int) {
	for _, claim := range s.view() {
		if claim.Annotations[provision.ProvisionerAnnotation] != external || claim.Spec.VolumeName != "" || s.IntN(n) > 0 {
			continue
		}
		pv := newVolume("pvc-"+string(claim.UID), "3Gi")
		pv.Annotations[provision.ProvisionedByAnnotation] = external
		pv.Labels = simLabels[1]
		pv.Spec.StorageClassName, pv.Spec.PersistentVolumeReclaimPolicy = "external", v1.PersistentVolumeReclaimDelete
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}
		_, err := s.Cluster.PersistentVolumes().Create(s.Context, pv, metav1.CreateOptions{})
		if s.Tolerate(err) {
			s.Log("provision %s for %s", pv.Name, claim.Name)
		}
	}
	for _, pv := range s.Volumes() {
		if pv.Annotations[provision.ProvisionedByAnnotation] != external || pv.Status.Phase != v1.VolumeReleased || pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
			continue
		}
		s.Log("the provisioner deletes %s", pv.Name)
		s.checkCall("release", pv.Name)
		s.Tolerate(s.Cluster.PersistentVolumes().Delete(s.Context, pv.Name, metav1.DeleteOptions{}))
	}
	s.unprotect(false)
}

// createPod creates a pod that uses a bound claim, and writes to its volume.
func (s *simulation) createPod() {
	claim, ok := simtest.One(s.Rand, s.Claims())
	if !ok || claim.Status.Phase != v1.ClaimBound || claim.DeletionTimestamp != nil {
		return
	}
	s.number++
	pod := newPod(fmt.Sprint("pod-", s.number), claim.Name, claim.UID)
	s.Log("create %s with %s, %s", pod.Name, claim.Name, claim.Spec.VolumeName)
	_, err := s.Cluster.Pods(namespace).Create(s.Context, pod, metav1.CreateOptions{})
	s.Tolerate(err)
	pv, err := s.Cluster.PersistentVolumes().Get(s.Context, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		return // the node refuses the volume
	}
	if before := s.plugin.use(pv.Name, claim.UID); before != "" {
		s.Fail("the claim %s receives the files of %s in %s", claim.Name, before, pv.Name)
	}
}

func (s *simulation) deletePod(pod v1.Pod) {
	s.Log("delete %s", pod.Name)
	s.Tolerate(s.Cluster.Pods(namespace).Delete(s.Context, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// editVolume edits a volume. A user who edits the reference has removed the files before.
func (s *simulation) editVolume() {
	synctest.Wait() // no controller is between its last read of the volume and a call of the plugin
	s.check()
	pv, ok := simtest.One(s.Rand, s.Volumes())
	if !ok {
		return
	}
	isStatic := pv.Annotations[provision.ProvisionedByAnnotation] == ""
	isKept := isStatic && !slices.Contains(pv.Finalizers, bind.PluginFinalizer)
	switch n := s.IntN(12); {
	case n < 6 && !isKept: // deleted while its reference changes: see the package doc of provision
		return
	case n < 2:
		pv.Spec.ClaimRef = nil
	case n < 4:
		pv.Spec.ClaimRef = s.reference()
	case n < 5 && pv.Spec.ClaimRef != nil:
		pv.Spec.ClaimRef.UID = ""
	case n < 6:
		delete(pv.Annotations, bind.BoundByControllerAnnotation)
	case n < 7:
		metav1.SetMetaDataAnnotation(&pv.ObjectMeta, bind.BoundByControllerAnnotation, "yes")
	case n < 8:
		pv.Labels = simLabels[s.IntN(2)]
	case n < 9:
		pv.Spec.StorageClassName = s.class()
	case n < 10 && isStatic: // a provisioned volume would be too small for its claim
		pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse(s.size())
	case pv.DeletionTimestamp == nil: // otherwise its finalizer would go, and the storage stay
		pv.Spec.PersistentVolumeReclaimPolicy = simPolicies[s.IntN(4)]
	}
	s.Log("edit %s: %v, %v, %v, %q, %s", pv.Name, pv.Spec.ClaimRef, pv.Annotations, pv.Labels, pv.Spec.StorageClassName, pv.Spec.PersistentVolumeReclaimPolicy)
	_, err := s.Cluster.PersistentVolumes().Update(s.Context, &pv, metav1.UpdateOptions{})
	if s.Tolerate(err) {
		s.plugin.reset(pv.Name)
	}
}

// endRecyclings removes the marks that wait for a user: of volumes with another reference or another policy
// than the one for which the recycling began. No recycling runs any more, and the user has removed the files.
func (s *simulation) endRecyclings() {
	for _, pv := range s.Volumes() {
		mark, ok := pv.Annotations[bind.RecyclingAnnotation]
		ref := pv.Spec.ClaimRef
		isSame := ref != nil && ref.UID != "" && strings.Contains(mark, string(ref.UID)) && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle
		if !ok || isSame || s.plugin.recycles(pv.UID) {
			continue
		}
		s.Log("remove the mark of %s", pv.Name)
		delete(pv.Annotations, bind.RecyclingAnnotation)
		_, err := s.Cluster.PersistentVolumes().Update(s.Context, &pv, metav1.UpdateOptions{})
		if s.Tolerate(err) {
			s.plugin.reset(pv.Name)
		}
	}
}

// editClaim edits the annotations and the labels of a claim.
func (s *simulation) editClaim() {
	claim, ok := simtest.One(s.Rand, s.Claims())
	if !ok {
		return
	}
	name := []string{bind.BindCompletedAnnotation, bind.BoundByControllerAnnotation, provision.ProvisionerAnnotation}[s.IntN(3)]
	s.Log("edit %s: %s", claim.Name, name)
	delete(claim.Annotations, name)
	claim.Labels = simLabels[s.IntN(2)]
	_, err := s.Cluster.PersistentVolumeClaims(namespace).Update(s.Context, &claim, metav1.UpdateOptions{})
	s.Tolerate(err)
}

// editClass deletes a class, or creates it again, at times as the default class.
func (s *simulation) editClass() {
	name := simClassNames[s.IntN(len(simClassNames))]
	s.Log("replace the class %s", name)
	s.Tolerate(s.Cluster.StorageClasses().Delete(s.Context, name, metav1.DeleteOptions{}))
	if s.IntN(2) == 0 {
		s.setClass(name, s.IntN(3) == 0)
	}
}

// setClass creates a class, unless it exists.
func (s *simulation) setClass(name string, isDefault bool) {
	class := newClass(name, simProvisioners[name])
	if name == "late" {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		class.VolumeBindingMode = &mode
	}
	if isDefault {
		class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	_, err := s.Cluster.StorageClasses().Create(s.Context, class, metav1.CreateOptions{})
	s.Tolerate(err)
}

// simFaults are the faults of the binders alone.
var simFaults = []simtest.Fault{
	{Name: "late claims", Begin: lateEvents("persistentvolumeclaims", "")},
	{Name: "late volumes", Begin: lateEvents("persistentvolumes", "")},
	{Name: "late claims of the second binder", Begin: lateEvents("persistentvolumeclaims", "second binder")},
	{Name: "late volumes of the second binder", Begin: lateEvents("persistentvolumes", "second binder")},
	{Name: "slow patches", Begin: simtest.Injected(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Share: 0.5, Latency: 3 * time.Minute})},
}

func lateEvents(resource, identity string) func(*simtest.Faults) func() {
	return func(s *simtest.Faults) func() {
		return s.Server.InjectEvents(apitest.EventFault{Resource: resource, Identity: identity, Delay: time.Duration(1+s.IntN(600)) * time.Second})
	}
}
