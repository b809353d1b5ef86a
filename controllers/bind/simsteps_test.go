package bind_test

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const external = "example.com/external"

// simClasses are the classes: their provisioner. The claims of late wait for a consumer.
var simClasses = map[string]string{"plugin": pluginName, "external": external, "late": "kubernetes.io/no-provisioner"}

var simClassNames = []string{"", "", "", "plugin", "external", "late"}

func (s *simulation) createClasses() {
	for name, provisioner := range simClasses {
		class := newClass(name, provisioner)
		if name == "late" {
			mode := storagev1.VolumeBindingWaitForFirstConsumer
			class.VolumeBindingMode = &mode
		}
		_, err := s.cluster.StorageClasses().Create(s.ctx, class, metav1.CreateOptions{})
		s.must(err)
	}
}

// step takes a step at random.
func (s *simulation) step() {
	s.restartCrashed()
	switch n := s.IntN(100); {
	case n < 16:
		s.createVolume()
	case n < 34:
		s.createClaim()
	case n < 44:
		s.deleteClaim()
	case n < 48:
		s.deleteVolume()
	case n < 54:
		s.schedule()
	case n < 60:
		s.provision(2)
	case n < 66:
		s.createPod()
	case n < 71:
		s.deletePod()
	case n < 74:
		s.editReference()
	case n < 76:
		s.editClaim()
	case n < 78:
		s.changePolicy()
	case n < 81 && !s.hasTwins:
		s.crash()
		s.start()
	case n < 86:
		s.disturb()
	case n < 90:
		s.recover()
	default:
		d := time.Duration(1+s.IntN(60)) * []time.Duration{time.Second, time.Second, time.Minute}[s.IntN(3)]
		s.log("%v pass", d)
		time.Sleep(d)
	}
}

// tolerate fails for an error that no concurrent write explains.
func (s *simulation) tolerate(err error) bool {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsInvalid(err) {
		s.must(err)
	}
	return err == nil
}

// one returns an element at random, or false.
func one[T any](s *simulation, all []T) (element T, ok bool) {
	if len(all) == 0 {
		return element, false
	}
	return all[s.IntN(len(all))], true
}

// createVolume creates a static volume of one of few names.
func (s *simulation) createVolume() {
	pv := newVolume(fmt.Sprint("volume-", s.IntN(6)), fmt.Sprint(1+s.IntN(3), "Gi"))
	pv.Spec.PersistentVolumeReclaimPolicy = []v1.PersistentVolumeReclaimPolicy{
		v1.PersistentVolumeReclaimRetain, v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle, v1.PersistentVolumeReclaimRecycle}[s.IntN(4)]
	pv.Spec.StorageClassName = simClassNames[s.IntN(len(simClassNames))]
	if s.IntN(6) == 0 {
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: fmt.Sprint("claim-", s.IntN(6))}
	}
	_, err := s.cluster.PersistentVolumes().Create(s.ctx, pv, metav1.CreateOptions{})
	if s.tolerate(err) {
		s.log("create %s, class %q, %s", pv.Name, pv.Spec.StorageClassName, pv.Spec.PersistentVolumeReclaimPolicy)
		s.plugin.reset(pv.Name)
	}
}

// createClaim creates a claim of one of few names.
func (s *simulation) createClaim() {
	claim := newClaim(fmt.Sprint("claim-", s.IntN(6)), fmt.Sprint(1+s.IntN(3), "Gi"))
	claim.Spec.StorageClassName = &simClassNames[s.IntN(len(simClassNames))]
	if s.IntN(8) == 0 {
		claim.Spec.VolumeName = fmt.Sprint("volume-", s.IntN(6))
	}
	created, err := s.cluster.PersistentVolumeClaims(namespace).Create(s.ctx, claim, metav1.CreateOptions{})
	if s.tolerate(err) {
		s.log("create %s, UID %s, class %q, names %q", created.Name, created.UID, *created.Spec.StorageClassName, created.Spec.VolumeName)
	}
}

// deleteClaim deletes a claim that no pod uses, or by force.
func (s *simulation) deleteClaim() {
	claim, ok := one(s, s.claims())
	if !ok {
		return
	}
	s.log("delete %s", claim.Name)
	s.tolerate(s.cluster.PersistentVolumeClaims(namespace).Delete(s.ctx, claim.Name, metav1.DeleteOptions{}))
	s.unprotectClaims(s.IntN(4) == 0)
}

// unprotectClaims does the work of the protection controller.
func (s *simulation) unprotectClaims(byForce bool) {
	pods := s.pods()
	for _, claim := range s.claims() {
		isUsed := slices.ContainsFunc(pods, func(pod v1.Pod) bool {
			return pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName == claim.Name
		})
		if claim.DeletionTimestamp != nil && (!isUsed || byForce) && slices.Contains(claim.Finalizers, claimProtection) {
			claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == claimProtection })
			_, err := s.cluster.PersistentVolumeClaims(namespace).Update(s.ctx, &claim, metav1.UpdateOptions{})
			s.tolerate(err)
		}
	}
}

// deleteVolume deletes the object of a volume, by force at times.
func (s *simulation) deleteVolume() {
	pv, ok := one(s, s.volumes())
	if !ok {
		return
	}
	s.log("delete %s", pv.Name)
	if !slices.Contains(pv.Finalizers, bind.PluginFinalizer) || pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
		s.plugin.abandon(pv.Name)
	}
	s.tolerate(s.cluster.PersistentVolumes().Delete(s.ctx, pv.Name, metav1.DeleteOptions{}))
	s.must(unprotectVolumes(s.ctx, s.cluster))
	if s.IntN(3) > 0 || s.hasTwins || pv.Annotations[provision.ProvisionedByAnnotation] != "" {
		return
	}
	s.log("by force")
	if live, err := s.cluster.PersistentVolumes().Get(s.ctx, pv.Name, metav1.GetOptions{}); err == nil {
		live.Finalizers = nil
		_, err = s.cluster.PersistentVolumes().Update(s.ctx, live, metav1.UpdateOptions{})
		s.tolerate(err)
	}
}

// schedule reserves a volume for a claim that waits for a consumer, as the scheduler does.
func (s *simulation) schedule() {
	volumes := s.volumes()
	for _, claim := range s.claims() {
		if *claim.Spec.StorageClassName != "late" || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
			continue
		}
		for _, pv := range volumes {
			if pv.Spec.ClaimRef != nil || pv.Spec.StorageClassName != "late" || pv.Status.Phase != v1.VolumeAvailable || s.IntN(2) == 0 {
				continue
			}
			s.log("reserve %s for %s", pv.Name, claim.Name)
			pv.Spec.ClaimRef = &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim.Name, UID: claim.UID}
			metav1.SetMetaDataAnnotation(&pv.ObjectMeta, bind.BoundByControllerAnnotation, "yes")
			_, err := s.cluster.PersistentVolumes().Update(s.ctx, &pv, metav1.UpdateOptions{})
			s.tolerate(err)
			break
		}
	}
}

// provision does the work of the external provisioner for one of n claims, and for released volumes.
func (s *simulation) provision(n int) {
	for _, claim := range s.claims() {
		if claim.Annotations[provision.ProvisionerAnnotation] != external || s.IntN(n) > 0 {
			continue
		}
		pv := newVolume("pvc-"+string(claim.UID), "3Gi")
		pv.Annotations[provision.ProvisionedByAnnotation] = external
		pv.Spec.StorageClassName, pv.Spec.PersistentVolumeReclaimPolicy = "external", v1.PersistentVolumeReclaimDelete
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}
		_, err := s.cluster.PersistentVolumes().Create(s.ctx, pv, metav1.CreateOptions{})
		if s.tolerate(err) {
			s.log("provision %s for %s", pv.Name, claim.Name)
		}
	}
	for _, pv := range s.volumes() {
		if pv.Annotations[provision.ProvisionedByAnnotation] != external || pv.Status.Phase != v1.VolumeReleased || pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
			continue
		}
		s.log("the provisioner deletes %s", pv.Name)
		s.checkCall("release", pv.Name)
		s.tolerate(s.cluster.PersistentVolumes().Delete(s.ctx, pv.Name, metav1.DeleteOptions{}))
	}
	s.must(unprotectVolumes(s.ctx, s.cluster))
}

// createPod creates a pod that uses a bound claim, and writes to its volume.
func (s *simulation) createPod() {
	claim, ok := one(s, s.claims())
	if !ok || claim.Status.Phase != v1.ClaimBound || claim.DeletionTimestamp != nil {
		return
	}
	s.number++
	pod := newPod(fmt.Sprint("pod-", s.number), claim.Name, claim.UID)
	s.log("create %s with %s, %s", pod.Name, claim.Name, claim.Spec.VolumeName)
	_, err := s.cluster.Pods(namespace).Create(s.ctx, pod, metav1.CreateOptions{})
	s.tolerate(err)
	pv, err := s.cluster.PersistentVolumes().Get(s.ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err == nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID { // otherwise the node refuses the volume
		s.useVolume(pv.Name, claim.UID)
	}
}

func (s *simulation) useVolume(name string, claim types.UID) {
	if before := s.plugin.use(name, claim); before != "" {
		s.fail("the claim %s receives the files of %s in %s", claim, before, name)
	}
}

func (s *simulation) deletePod() {
	if pod, ok := one(s, s.pods()); ok {
		s.log("delete %s", pod.Name)
		s.tolerate(s.cluster.Pods(namespace).Delete(s.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	}
}

// editReference removes or changes the reference of a volume, after its files were removed.
func (s *simulation) editReference() {
	synctest.Wait()
	pv, ok := one(s, s.volumes())
	if !ok || s.hasTwins || pv.Annotations[provision.ProvisionedByAnnotation] != "" {
		return
	}
	pv.Spec.ClaimRef = nil
	if s.IntN(3) == 0 {
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: fmt.Sprint("claim-", s.IntN(6))}
	}
	s.log("edit the reference of %s: %v", pv.Name, pv.Spec.ClaimRef)
	_, err := s.cluster.PersistentVolumes().Update(s.ctx, &pv, metav1.UpdateOptions{})
	if s.tolerate(err) {
		s.plugin.reset(pv.Name)
	}
}

// editClaim removes the annotations of a claim.
func (s *simulation) editClaim() {
	claim, ok := one(s, s.claims())
	if !ok {
		return
	}
	s.log("edit %s", claim.Name)
	delete(claim.Annotations, []string{bind.BindCompletedAnnotation, bind.BoundByControllerAnnotation, provision.ProvisionerAnnotation}[s.IntN(3)])
	_, err := s.cluster.PersistentVolumeClaims(namespace).Update(s.ctx, &claim, metav1.UpdateOptions{})
	s.tolerate(err)
}

// changePolicy changes the policy of a volume, while no controller is between its last read of the policy
// and a call of the plugin.
func (s *simulation) changePolicy() {
	synctest.Wait()
	pv, ok := one(s, s.volumes())
	if !ok || pv.DeletionTimestamp != nil { // its finalizer would go, and the storage stay
		return
	}
	pv.Spec.PersistentVolumeReclaimPolicy = []v1.PersistentVolumeReclaimPolicy{
		v1.PersistentVolumeReclaimRetain, v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle}[s.IntN(3)]
	s.log("policy of %s: %s", pv.Name, pv.Spec.PersistentVolumeReclaimPolicy)
	_, err := s.cluster.PersistentVolumes().Update(s.ctx, &pv, metav1.UpdateOptions{})
	s.tolerate(err)
}

// simFaults are the faults that last until a later step ends them.
var simFaults = map[string]func(*simulation) (end func()){
	"internal errors":    injected(apitest.Fault{Share: 0.3, Failure: apitest.InternalError}),
	"late errors":        injected(apitest.Fault{Share: 0.5, Failure: apitest.InternalError, AfterEffect: true}),
	"late timeouts":      injected(apitest.Fault{Share: 0.5, Failure: apitest.ServerTimeout, AfterEffect: true}),
	"too many requests":  injected(apitest.Fault{Share: 0.5, Failure: apitest.TooManyRequests(time.Second)}),
	"injected conflicts": injected(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Share: 0.5, Failure: apitest.Conflict}),
	"slow calls":         injected(apitest.Fault{Share: 0.5, Latency: 20 * time.Second}),
	"an outage":          func(s *simulation) func() { return s.server.StartOutage("") },
	"held events":        func(s *simulation) func() { return s.server.HoldEvents("") },
	"stale lists":        func(s *simulation) func() { return s.server.StaleLists("") },
	"late events": func(s *simulation) func() {
		return s.server.InjectEvents(apitest.EventFault{Share: 0.3, Delay: time.Duration(1+s.IntN(300)) * time.Second})
	},
	"late claims": func(s *simulation) func() {
		return s.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Delay: time.Duration(1+s.IntN(600)) * time.Second})
	},
	"late volumes": func(s *simulation) func() {
		return s.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumes", Delay: time.Duration(1+s.IntN(600)) * time.Second})
	},
	"a crash":      func(s *simulation) func() { return s.injectCrash(false) },
	"a late crash": func(s *simulation) func() { return s.injectCrash(true) },
}

func injected(f apitest.Fault) func(*simulation) func() {
	return func(s *simulation) func() { return s.server.Inject(f) }
}

// injectCrash crashes the process at one of its next writes.
func (s *simulation) injectCrash(late bool) func() {
	if s.hasTwins {
		return func() {}
	}
	return s.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Skip: s.IntN(6), Times: 1, Crash: true, AfterEffect: late})
}

// disturb begins a fault, or lets the server forget old versions.
func (s *simulation) disturb() {
	names := []string{"compaction"}
	for name := range simFaults {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[s.IntN(len(names))]
	s.log("fault: %s", name)
	if name == "compaction" {
		s.server.Compact()
		return
	}
	end := simFaults[name](s)
	s.faults = append(s.faults, func() { s.log("end of fault: %s", name); end() })
}

// recover ends a fault.
func (s *simulation) recover() {
	if len(s.faults) > 0 {
		i := s.IntN(len(s.faults))
		s.faults[i]()
		s.faults = slices.Delete(s.faults, i, i+1)
	}
}
