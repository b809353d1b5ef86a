package manifests

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// objects are what all files say together. They are not changed any more.
type objects struct {
	pods       []*v1.Pod // by namespace and name
	claims     map[types.NamespacedName]*v1.PersistentVolumeClaim
	volumes    map[types.NamespacedName]*v1.PersistentVolume
	configMaps map[types.NamespacedName]*v1.ConfigMap
	secrets    map[types.NamespacedName]*v1.Secret

	problems []Problem
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// collect puts the files together, which are sorted by name: of objects with one name
// the first counts.
func collect(files []file, node types.NodeName) *objects {
	all := &objects{
		claims:     map[types.NamespacedName]*v1.PersistentVolumeClaim{},
		volumes:    map[types.NamespacedName]*v1.PersistentVolume{},
		configMaps: map[types.NamespacedName]*v1.ConfigMap{},
		secrets:    map[types.NamespacedName]*v1.Secret{},
	}
	pods := map[types.NamespacedName]*v1.Pod{}
	uids := map[types.UID]bool{}
	for _, f := range files {
		for _, d := range f.documents {
			if err := all.add(d, pods, uids, node); err != nil {
				all.problems = append(all.problems, d.problem(err))
			}
		}
	}
	all.pods = slices.SortedFunc(maps.Values(pods), func(a, b *v1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, pod := range all.pods {
		all.addClaimsOf(pod)
	}
	all.bind()
	return all
}

func (all *objects) add(d document, pods map[types.NamespacedName]*v1.Pod, uids map[types.UID]bool, node types.NodeName) error {
	switch object := d.object.(type) {
	case *v1.Pod:
		pod := *object // all that differs from the document is the UID
		return addPod(&pod, pods, uids, node)
	case *v1.PersistentVolumeClaim:
		return addTo(all.claims, object.DeepCopy())
	case *v1.PersistentVolume:
		return addTo(all.volumes, object.DeepCopy())
	case *v1.ConfigMap:
		return addTo(all.configMaps, object)
	case *v1.Secret:
		return addTo(all.secrets, object)
	}
	return fmt.Errorf("a %T is of no use here", d.object)
}

func addTo[T metav1.Object](all map[types.NamespacedName]T, object T) error {
	name := nameOf(object)
	if _, ok := all[name]; ok {
		return field.Duplicate(metadata.Child("name"), name.String())
	}
	all[name] = object
	return nil
}

func addPod(pod *v1.Pod, pods map[types.NamespacedName]*v1.Pod, uids map[types.UID]bool, node types.NodeName) error {
	if _, ok := pods[nameOf(pod)]; ok {
		return field.Duplicate(metadata.Child("name"), nameOf(pod).String())
	}
	if pod.UID == "" {
		uid, err := uidOf(pod, node)
		if err != nil {
			return err
		}
		pod.UID = uid
	}
	if uids[pod.UID] {
		return field.Duplicate(metadata.Child("uid"), short(string(pod.UID)))
	}
	uids[pod.UID], pods[nameOf(pod)] = true, pod
	return nil
}

// addClaimsOf makes the claims of a pod's ephemeral volumes.
func (all *objects) addClaimsOf(pod *v1.Pod) {
	for _, v := range pod.Spec.Volumes {
		if v.Ephemeral == nil {
			continue
		}
		template := v.Ephemeral.VolumeClaimTemplate
		claim := &v1.PersistentVolumeClaim{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		claim.Namespace, claim.Name = pod.Namespace, pod.Name+"-"+v.Name
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
		// One of the same name that is there is somebody's own: the manager says so.
		_ = addTo(all.claims, claim)
	}
}

// bind does what the control plane would do with claims that say nothing of their state.
func (all *objects) bind() {
	for _, name := range sortedNames(all.claims) {
		claim := all.claims[name]
		if claim.Status.Phase == "" {
			all.bindOne(claim)
		}
		if claim.UID == "" {
			claim.UID = claimUID(claim)
		}
	}
}

func (all *objects) bindOne(claim *v1.PersistentVolumeClaim) {
	pv := all.volumeFor(claim)
	if pv == nil {
		claim.Status.Phase = v1.ClaimPending
		return
	}
	ref := pv.Spec.ClaimRef
	if ref == nil {
		ref = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name}
		pv.Spec.ClaimRef = ref
	}
	claim.UID = cmp.Or(claim.UID, ref.UID, claimUID(claim))
	ref.UID = claim.UID
	claim.Spec.VolumeName, claim.Status.Phase, pv.Status.Phase = pv.Name, v1.ClaimBound, v1.VolumeBound
}

// volumeFor returns the volume that a claim names, or else the first one that names it;
// nil: none.
func (all *objects) volumeFor(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	if name := claim.Spec.VolumeName; name != "" {
		pv := all.volumes[types.NamespacedName{Name: name}]
		if pv == nil || pv.Spec.ClaimRef != nil && !isRefTo(pv.Spec.ClaimRef, claim) {
			return nil
		}
		return pv
	}
	for _, name := range sortedNames(all.volumes) {
		if pv := all.volumes[name]; isRefTo(pv.Spec.ClaimRef, claim) {
			return pv
		}
	}
	return nil
}

func isRefTo(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) bool {
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name &&
		(ref.UID == "" || claim.UID == "" || ref.UID == claim.UID)
}

func sortedNames[T any](all map[types.NamespacedName]T) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
