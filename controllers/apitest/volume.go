package apitest

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var volumeKind = newKind(kind{resource: core("persistentvolumes"), status: true}, rules[*v1.PersistentVolume]{
	fields: map[string]func(*v1.PersistentVolume) string{"name": func(pv *v1.PersistentVolume) string { return pv.Name }},
	prepareCreate: func(pv *v1.PersistentVolume) {
		now := metav1.Now().Rfc3339Copy()
		pv.Status = v1.PersistentVolumeStatus{Phase: v1.VolumePending, LastPhaseTransitionTime: &now}
	},
	prepareUpdate: func(pv, old *v1.PersistentVolume) { pv.Status = old.Status },
	prepareStatus: func(pv, old *v1.PersistentVolume) {
		pv.Spec = old.Spec
		at, before := pv.Status.LastPhaseTransitionTime, old.Status.LastPhaseTransitionTime
		switch {
		case pv.Status.Phase == old.Status.Phase && at == nil:
			pv.Status.LastPhaseTransitionTime = before
		case pv.Status.Phase != old.Status.Phase && (at == nil || at.Equal(before)):
			now := metav1.Now().Rfc3339Copy()
			pv.Status.LastPhaseTransitionTime = &now
		}
	},
	setDefaults: func(pv *v1.PersistentVolume) {
		setDefault(&pv.Status.Phase, v1.VolumePending)
		setDefault(&pv.Spec.PersistentVolumeReclaimPolicy, v1.PersistentVolumeReclaimRetain)
		setPointer(&pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
		if pv.Spec.HostPath != nil {
			setPointer(&pv.Spec.HostPath.Type, v1.HostPathUnset)
		}
	},
	complete: func(_ *Server, pv *v1.PersistentVolume) {
		pv.Finalizers = addFinalizer(pv.Finalizers, volumeProtection)
	},
	validate:       validateVolume,
	validateUpdate: validateVolumeUpdate,
})

var reclaimPolicies = []v1.PersistentVolumeReclaimPolicy{
	v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle, v1.PersistentVolumeReclaimRetain}

func validateVolume(pv *v1.PersistentVolume) field.ErrorList {
	spec := pv.Spec
	errs := validateAccessModes(spec.AccessModes, specPath.Child("accessModes"))
	errs = append(errs, validateStorage(spec.Capacity, specPath.Child("capacity"))...)
	errs = append(errs, oneOf(spec.PersistentVolumeReclaimPolicy, reclaimPolicies, specPath.Child("persistentVolumeReclaimPolicy"))...)
	errs = append(errs, oneOf(*spec.VolumeMode, volumeModes, specPath.Child("volumeMode"))...)
	switch n := sources(spec.PersistentVolumeSource); {
	case n == 0:
		errs = append(errs, field.Required(specPath, "must specify a volume type"))
	case n > 1:
		errs = append(errs, field.Forbidden(specPath, "may not specify more than 1 volume type"))
	}
	if spec.HostPath != nil && spec.HostPath.Path == "/" && spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(specPath.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if spec.Local != nil && spec.NodeAffinity == nil {
		errs = append(errs, field.Required(specPath.Child("nodeAffinity"), "Local volume requires node affinity"))
	}
	return errs
}

// sources returns the number of volume types in a source.
func sources(source v1.PersistentVolumeSource) (n int) {
	fields := reflect.ValueOf(source)
	for i := range fields.NumField() {
		if !fields.Field(i).IsNil() {
			n++
		}
	}
	return n
}

func validateVolumeUpdate(pv, old *v1.PersistentVolume) (errs field.ErrorList) {
	source, oldSource := pv.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if source.CSI != nil && oldSource.CSI != nil && oldSource.CSI.ControllerExpandSecretRef == nil {
		csi := *source.CSI
		csi.ControllerExpandSecretRef, source.CSI = nil, &csi
	}
	if !equality.Semantic.DeepEqual(source, oldSource) {
		errs = append(errs, field.Forbidden(specPath.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	errs = append(errs, immutable(pv.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil {
		errs = append(errs, immutable(pv.Spec.NodeAffinity, old.Spec.NodeAffinity, field.NewPath("nodeAffinity"))...)
	}
	if old.Spec.VolumeAttributesClassName != nil && pv.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(specPath.Child("volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}
