package fit

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/volumekit/volumekit/util/quantity"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// A space is a part of the index: a claim is bound to volumes of its space alone.
type space struct {
	class, attributes string
	mode              v1.PersistentVolumeMode
}

// modes is a set of access modes, one bit for each.
type modes uint8

// modeCount is the number of sets of access modes.
const modeCount = 16

var modeBits = map[v1.PersistentVolumeAccessMode]modes{
	v1.ReadWriteOnce: 1, v1.ReadOnlyMany: 2, v1.ReadWriteMany: 4, v1.ReadWriteOncePod: 8,
}

// modesOf returns a set. ok is false for a mode that Kubernetes does not have.
func modesOf(list []v1.PersistentVolumeAccessMode) (set modes, ok bool) {
	ok = true
	for _, mode := range list {
		bit, known := modeBits[mode]
		set, ok = set|bit, ok && known
	}
	return set, ok
}

// supersets are the sets that contain a set, those with the fewest modes first.
var supersets = func() (all [modeCount][]modes) {
	for of := range modes(modeCount) {
		for set := range modes(modeCount) {
			if set&of == of {
				all[of] = append(all[of], set)
			}
		}
		slices.SortStableFunc(all[of], func(a, b modes) int { return cmp.Compare(bits.OnesCount8(uint8(a)), bits.OnesCount8(uint8(b))) })
	}
	return all
}()

// A request is the space, the modes and the selector that a claim requests of a volume.
type request struct {
	claim    types.NamespacedName
	space    space
	modes    modes
	size     resource.Quantity
	selector labels.Selector
}

// requestOf returns the request of a claim. ok is false for a claim that fits no volume, such as one
// with a malformed selector.
func requestOf(claim *v1.PersistentVolumeClaim) (r request, ok bool) {
	r.claim = types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	r.space = space{Class(claim, value(claim.Spec.StorageClassName)), value(claim.Spec.VolumeAttributesClassName), volumeMode(claim.Spec.VolumeMode)}
	r.size, r.selector = claim.Spec.Resources.Requests[v1.ResourceStorage], labels.Everything()
	if r.modes, ok = modesOf(claim.Spec.AccessModes); !ok || quantity.Check(&r.size) != nil {
		return r, false
	}
	if claim.Spec.Selector == nil {
		return r, true
	}
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	r.selector = selector
	return r, err == nil
}

// fits reports whether a volume of the request's space is large enough, has the access modes and the
// labels.
func (r request) fits(v *volume) bool {
	return v.modes&r.modes == r.modes && v.at.size.Cmp(r.size) >= 0 && r.selector.Matches(labels.Set(v.pv.Labels))
}

// Class returns the class of a claim or a volume whose field has the name: that of the annotation
// v1.BetaStorageClassAnnotation before the field's.
func Class(object metav1.Object, name string) string {
	if class, ok := object.GetAnnotations()[v1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return name
}

func value(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

func volumeMode(mode *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if mode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *mode
}

// IsFree reports whether a volume may be chosen for a claim.
func IsFree(pv *v1.PersistentVolume) bool {
	switch pv.Status.Phase {
	case "", v1.VolumePending, v1.VolumeAvailable:
		return pv.Spec.ClaimRef == nil && pv.DeletionTimestamp == nil
	}
	return false
}
