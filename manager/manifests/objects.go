package manifests

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// objects are the objects of all files. They are immutable.
type objects struct {
	pods       []*v1.Pod // by namespace and name
	byUID      map[types.UID]*v1.Pod
	claims     map[types.NamespacedName]*v1.PersistentVolumeClaim
	volumes    map[types.NamespacedName]*v1.PersistentVolume
	configMaps map[types.NamespacedName]*v1.ConfigMap
	secrets    map[types.NamespacedName]*v1.Secret

	problems []Problem
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// combineFiles combines the files, which are sorted by name: of objects with one name the first
// counts.
func combineFiles(files []file, node types.NodeName) *objects {
	all := &objects{
		byUID:      map[types.UID]*v1.Pod{},
		claims:     map[types.NamespacedName]*v1.PersistentVolumeClaim{},
		volumes:    map[types.NamespacedName]*v1.PersistentVolume{},
		configMaps: map[types.NamespacedName]*v1.ConfigMap{},
		secrets:    map[types.NamespacedName]*v1.Secret{},
	}
	pods := map[types.NamespacedName]*v1.Pod{}
	for _, f := range files {
		for _, d := range f.documents {
			if err := all.add(d, pods, node); err != nil {
				all.problems = append(all.problems, d.Problem(err))
			}
		}
	}
	all.pods = slices.SortedFunc(maps.Values(pods), func(a, b *v1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, pod := range all.pods {
		all.addClaimsOf(pod)
	}
	all.bindClaims()
	return all
}

func (all *objects) add(d Document, pods map[types.NamespacedName]*v1.Pod, node types.NodeName) error {
	switch object := d.Object.(type) {
	case *v1.Pod:
		pod := *object // a shallow copy, as only the UID changes
		return all.addPod(&pod, pods, node)
	case *v1.PersistentVolumeClaim:
		return addTo(all.claims, object.DeepCopy())
	case *v1.PersistentVolume:
		return addTo(all.volumes, object.DeepCopy())
	case *v1.ConfigMap:
		return addTo(all.configMaps, object)
	case *v1.Secret:
		return addTo(all.secrets, object)
	}
	return fmt.Errorf("a %T is not supported", d.Object)
}

// addTo adds an object, and refuses a second object of the same name.
func addTo[T metav1.Object](all map[types.NamespacedName]T, object T) error {
	name := nameOf(object)
	if _, ok := all[name]; ok {
		return field.Duplicate(metadataPath.Child("name"), name.String())
	}
	all[name] = object
	return nil
}

func (all *objects) addPod(pod *v1.Pod, pods map[types.NamespacedName]*v1.Pod, node types.NodeName) error {
	if _, ok := pods[nameOf(pod)]; ok {
		return field.Duplicate(metadataPath.Child("name"), nameOf(pod).String())
	}
	if pod.UID == "" {
		uid, err := uidOf(pod, node)
		if err != nil {
			return err
		}
		pod.UID = uid
	}
	if all.byUID[pod.UID] != nil {
		return field.Duplicate(metadataPath.Child("uid"), brief.Name(string(pod.UID)))
	}
	all.byUID[pod.UID], pods[nameOf(pod)] = pod, pod
	return nil
}

// addClaimsOf adds the claims of a pod's ephemeral volumes.
func (all *objects) addClaimsOf(pod *v1.Pod) {
	for _, v := range pod.Spec.Volumes {
		if v.Ephemeral == nil {
			continue
		}
		claim := claimFromTemplate(pod, &v)
		// An existing claim of the same name is not the pod's: the manager reports that.
		_ = addTo(all.claims, claim)
	}
}

// bindClaims binds claims without a status, as the control plane would, and sets missing UIDs.
func (all *objects) bindClaims() {
	for _, name := range sortedNames(all.claims) {
		claim := all.claims[name]
		if claim.Status.Phase == "" {
			all.bindClaim(claim)
		}
		if claim.UID == "" {
			claim.UID = claimUID(claim)
		}
	}
}

func (all *objects) bindClaim(claim *v1.PersistentVolumeClaim) {
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

// volumeFor returns the volume that a claim names, or else the first volume that names the
// claim, or nil.
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
