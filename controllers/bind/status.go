package bind

import (
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fields are a part of a patch.
type fields = map[string]any

// boundStatus returns the fields in the status of a claim that differ from those of a claim bound to
// the volume, and nil if none does. The capacity is written with the phase alone: later the growth of
// volumes writes it.
func boundStatus(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) fields {
	changed := fields{}
	if !slices.Equal(claim.Status.AccessModes, pv.Spec.AccessModes) {
		changed["accessModes"] = pv.Spec.AccessModes
	}
	if claim.Status.Phase != v1.ClaimBound {
		changed["phase"] = v1.ClaimBound
		if capacity, ok := capacityOf(pv); ok {
			changed["capacity"] = fields{string(v1.ResourceStorage): capacity}
		}
	}
	if attributes := pv.Spec.VolumeAttributesClassName; claim.Status.Phase != v1.ClaimBound && claim.Status.Phase != v1.ClaimLost && attributes != nil {
		changed["currentVolumeAttributesClassName"] = *attributes
	}
	if len(changed) == 0 {
		return nil
	}
	return changed
}

// capacityOf returns the capacity of a volume for its claim: the one before a growth that has not ended
// on a node.
func capacityOf(pv *v1.PersistentVolume) (capacity resource.Quantity, ok bool) {
	if before, err := resource.ParseQuantity(pv.Annotations[preResizeAnnotation]); err == nil {
		return before, true
	}
	capacity, ok = pv.Spec.Capacity[v1.ResourceStorage]
	return capacity, ok
}

// unboundStatus returns the fields in the status of a claim that differ from those of an unbound claim,
// and nil if none does.
func unboundStatus(claim *v1.PersistentVolumeClaim) fields {
	changed := emptyStatus(claim)
	if claim.Status.Phase != v1.ClaimPending {
		changed["phase"] = v1.ClaimPending
	}
	if len(changed) == 0 {
		return nil
	}
	return changed
}

// lostStatus returns the status of a lost claim.
func lostStatus(claim *v1.PersistentVolumeClaim) fields {
	changed := emptyStatus(claim)
	changed["phase"] = v1.ClaimLost
	return changed
}

// emptyStatus returns the fields that only a bound claim has, to remove them.
func emptyStatus(claim *v1.PersistentVolumeClaim) fields {
	changed := fields{}
	if claim.Status.AccessModes != nil {
		changed["accessModes"] = nil
	}
	if claim.Status.Capacity != nil {
		changed["capacity"] = nil
	}
	if claim.Status.CurrentVolumeAttributesClassName != nil {
		changed["currentVolumeAttributesClassName"] = nil
	}
	return changed
}

// A patch is a strategic merge patch. Unlike an update it keeps fields that this program does not know.
type patch struct {
	metadata fields
	part     string // spec or status
	change   fields
}

// patchOf returns a patch of a part of one object. The API server refuses it for another object of the
// name.
func patchOf(object metav1.Object, part string, change fields) patch {
	return patch{fields{"uid": object.GetUID()}, part, change}
}

// ofVersion makes the API server refuse the patch with a conflict if the object has changed.
func (p patch) ofVersion(object metav1.Object) patch {
	p.metadata["resourceVersion"] = object.GetResourceVersion()
	return p
}

// annotated sets annotations; nil removes one.
func (p patch) annotated(annotations fields) patch {
	p.metadata["annotations"] = annotations
	return p
}

// subresources returns the subresource that the patch is for.
func (p patch) subresources() []string {
	if p.part == "status" {
		return []string{p.part}
	}
	return nil
}

func (p patch) encode() ([]byte, error) {
	all := fields{"metadata": p.metadata}
	if p.change != nil {
		all[p.part] = p.change
	}
	return json.Marshal(all)
}

// referencePatch makes a volume refer to a claim.
func referencePatch(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) patch {
	p := patchOf(pv, "spec", fields{"claimRef": fields{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.Namespace, "name": claim.Name,
		"uid": claim.UID, "resourceVersion": claim.ResourceVersion,
	}}).ofVersion(pv)
	if !refersTo(pv, claim) {
		p = p.annotated(fields{BoundByControllerAnnotation: yes})
	}
	return p
}

// phasePatch sets the phase of a volume. The API server sets the time of the transition.
func phasePatch(pv *v1.PersistentVolume, phase v1.PersistentVolumePhase, message string) patch {
	return patchOf(pv, "status", fields{"phase": phase, "message": message}).ofVersion(pv)
}

// unbindPatch removes the reference of a volume. A reference that a user has written loses its UID
// alone: the volume stays reserved for a claim of the name.
func unbindPatch(pv *v1.PersistentVolume) patch {
	if !has(pv, BoundByControllerAnnotation) {
		return patchOf(pv, "spec", fields{"claimRef": fields{"uid": nil}}).ofVersion(pv)
	}
	return freePatch(pv)
}

// freePatch removes the reference of a volume, also that of a user.
func freePatch(pv *v1.PersistentVolume) patch {
	return patchOf(pv, "spec", fields{"claimRef": nil}).ofVersion(pv).annotated(fields{BoundByControllerAnnotation: nil})
}

// namePatch makes a claim name its volume. With the version of the claim: a claim that is being deleted
// meanwhile receives no volume.
func namePatch(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) patch {
	annotations := fields{BindCompletedAnnotation: yes}
	if claim.Spec.VolumeName != pv.Name {
		annotations[BoundByControllerAnnotation] = yes
	}
	return patchOf(claim, "spec", fields{"volumeName": pv.Name}).annotated(annotations).ofVersion(claim)
}
