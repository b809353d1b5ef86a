package apitest

import (
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	claimProtection    = "kubernetes.io/pvc-protection"
	volumeProtection   = "kubernetes.io/pv-protection"
	defaultClassMarker = "storageclass.kubernetes.io/is-default-class"
)

var claimKind = newKind(kind{resource: core("persistentvolumeclaims"), namespaced: true, status: true}, rules[*v1.PersistentVolumeClaim]{
	fields: map[string]func(*v1.PersistentVolumeClaim) string{"name": func(c *v1.PersistentVolumeClaim) string { return c.Name }},
	prepareCreate: func(c *v1.PersistentVolumeClaim) {
		c.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}
	},
	prepareUpdate: func(c, old *v1.PersistentVolumeClaim) { c.Status = old.Status },
	prepareStatus: func(c, old *v1.PersistentVolumeClaim) { c.Spec = old.Spec },
	setDefaults: func(c *v1.PersistentVolumeClaim) {
		setPointer(&c.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
		setDefault(&c.Status.Phase, v1.ClaimPending)
		normalizeDataSources(&c.Spec)
	},
	complete:       completeClaim,
	validate:       validateClaim,
	validateUpdate: validateClaimUpdate,
	admit:          admitGrowth,
})

// normalizeDataSources sets dataSource from dataSourceRef, or dataSourceRef from dataSource, if
// only one of them is set.
func normalizeDataSources(spec *v1.PersistentVolumeClaimSpec) {
	switch {
	case spec.DataSource != nil && spec.DataSourceRef == nil:
		spec.DataSourceRef = &v1.TypedObjectReference{APIGroup: spec.DataSource.APIGroup, Kind: spec.DataSource.Kind, Name: spec.DataSource.Name}
	case spec.DataSource == nil && spec.DataSourceRef != nil && spec.DataSourceRef.Namespace == nil:
		spec.DataSource = &v1.TypedLocalObjectReference{APIGroup: spec.DataSourceRef.APIGroup, Kind: spec.DataSourceRef.Kind, Name: spec.DataSourceRef.Name}
	}
}

// completeClaim sets the default class and the protection finalizer.
func completeClaim(s *Server, c *v1.PersistentVolumeClaim) {
	c.Finalizers = addFinalizer(c.Finalizers, claimProtection)
	if _, ok := c.Annotations[v1.BetaStorageClassAnnotation]; ok || c.Spec.StorageClassName != nil {
		return
	}
	if class := s.defaultClass(); class != nil {
		c.Spec.StorageClassName = &class.Name
	}
}

// defaultClass returns the newest default class, or nil. Of several classes with the newest
// creation time it returns the first by name.
func (s *Server) defaultClass() (class *storagev1.StorageClass) {
	for _, object := range s.tables[classKind].find(all(classKind)) {
		candidate := object.(*storagev1.StorageClass)
		if candidate.Annotations[defaultClassMarker] == "true" &&
			(class == nil || class.CreationTimestamp.Before(&candidate.CreationTimestamp)) {
			class = candidate
		}
	}
	return class
}

func validateClaim(c *v1.PersistentVolumeClaim) field.ErrorList {
	errs := validateAccessModes(c.Spec.AccessModes, specPath.Child("accessModes"))
	errs = append(errs, validateStorage(c.Spec.Resources.Requests, specPath.Child("resources", "requests"))...)
	return append(errs, oneOf(*c.Spec.VolumeMode, volumeModes, specPath.Child("volumeMode"))...)
}

var volumeModes = []v1.PersistentVolumeMode{v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem}

// validateClaimUpdate permits to set an empty volume and class, and for a bound claim to change the
// request and the attributes class. It refuses other changes of the spec.
func validateClaimUpdate(c, old *v1.PersistentVolumeClaim) (errs field.ErrorList) {
	spec := c.Spec.DeepCopy()
	if old.Spec.VolumeName == "" {
		spec.VolumeName = ""
	}
	oldClass, inAnnotation := old.Annotations[v1.BetaStorageClassAnnotation]
	if old.Spec.StorageClassName == nil && c.Spec.StorageClassName != nil && (!inAnnotation || *c.Spec.StorageClassName == oldClass) {
		spec.StorageClassName = nil
	}
	upgraded := inAnnotation && spec.StorageClassName == nil && c.Spec.StorageClassName != nil
	if class, ok := c.Annotations[v1.BetaStorageClassAnnotation]; class != oldClass && (!upgraded || ok) {
		errs = append(errs, immutable(class, oldClass, metadataPath.Child("annotations").Key(v1.BetaStorageClassAnnotation))...)
	}
	if c.Status.Phase == v1.ClaimBound {
		if spec.Resources.Requests != nil {
			spec.Resources.Requests[v1.ResourceStorage] = old.Spec.Resources.Requests[v1.ResourceStorage]
		}
		spec.VolumeAttributesClassName = old.Spec.VolumeAttributesClassName
	}
	if !equality.Semantic.DeepEqual(*spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))
	}
	size, oldSize, capacity := request(c), request(old), old.Status.Capacity[v1.ResourceStorage]
	if size.Cmp(oldSize) < 0 && size.Cmp(capacity) <= 0 {
		errs = append(errs, field.Forbidden(specPath.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	if old.Status.CurrentVolumeAttributesClassName != nil && (c.Spec.VolumeAttributesClassName == nil || *c.Spec.VolumeAttributesClassName == "") &&
		!equality.Semantic.DeepEqual(c.Spec.VolumeAttributesClassName, old.Spec.VolumeAttributesClassName) {
		errs = append(errs, field.Forbidden(specPath.Child("volumeAttributesClassName"), "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"))
	}
	return append(errs, immutable(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
}

func request(c *v1.PersistentVolumeClaim) resource.Quantity {
	return c.Spec.Resources.Requests[v1.ResourceStorage]
}

// admitGrowth refuses a larger request unless the claim is bound and its class allows expansion.
func admitGrowth(s *Server, c, old *v1.PersistentVolumeClaim) error {
	size, oldSize := request(c), request(old)
	if size.Cmp(oldSize) <= 0 {
		return nil
	}
	refuse := func(why string) error {
		return apierrors.NewForbidden(core("persistentvolumeclaims"), c.Name, fmt.Errorf("%s", why))
	}
	if old.Status.Phase != v1.ClaimBound {
		return refuse("Only bound persistent volume claims can be expanded")
	}
	class, oldClass := className(c), className(old)
	stored, ok := s.tables[classKind].objects[api.Key{Name: class}].(*storagev1.StorageClass)
	if !ok || class == "" || class != oldClass || stored.AllowVolumeExpansion == nil || !*stored.AllowVolumeExpansion {
		return refuse("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	}
	return nil
}

func className(c *v1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}
