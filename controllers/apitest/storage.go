package apitest

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var classKind = newKind(kind{resource: storage("storageclasses")}, rules[*storagev1.StorageClass]{
	setDefaults: func(c *storagev1.StorageClass) {
		setPointer(&c.ReclaimPolicy, v1.PersistentVolumeReclaimDelete)
		setPointer(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	},
	validate: func(c *storagev1.StorageClass) field.ErrorList {
		errs := required(c.Provisioner, field.NewPath("provisioner"))
		errs = append(errs, oneOf(*c.VolumeBindingMode, []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer},
			field.NewPath("volumeBindingMode"))...)
		return append(errs, oneOf(*c.ReclaimPolicy, reclaimPolicies, field.NewPath("reclaimPolicy"))...)
	},
	validateUpdate: func(c, old *storagev1.StorageClass) field.ErrorList {
		errs := immutable(c.Parameters, old.Parameters, field.NewPath("parameters"))
		errs = append(errs, immutable(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
		errs = append(errs, immutable(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
		return append(errs, immutable(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
	},
})

var attachmentKind = newKind(kind{resource: storage("volumeattachments"), status: true, conditional: true}, rules[*storagev1.VolumeAttachment]{
	prepareCreate: func(a *storagev1.VolumeAttachment) { a.Status = storagev1.VolumeAttachmentStatus{} },
	prepareUpdate: func(a, old *storagev1.VolumeAttachment) { a.Status = old.Status },
	prepareStatus: func(a, old *storagev1.VolumeAttachment) {
		a.Spec = old.Spec
		metav1.ResetObjectMetaForStatus(&a.ObjectMeta, &old.ObjectMeta)
		a.ResourceVersion = old.ResourceVersion
	},
	validate: func(a *storagev1.VolumeAttachment) field.ErrorList {
		errs := required(a.Spec.Attacher, specPath.Child("attacher"))
		errs = append(errs, required(a.Spec.NodeName, specPath.Child("nodeName"))...)
		if (a.Spec.Source.PersistentVolumeName == nil) == (a.Spec.Source.InlineVolumeSpec == nil) {
			errs = append(errs, field.Required(specPath.Child("source"), "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
		}
		return errs
	},
	validateUpdate: func(a, old *storagev1.VolumeAttachment) field.ErrorList {
		return immutable(a.Spec, old.Spec, specPath)
	},
	validateStatus: func(a *storagev1.VolumeAttachment) field.ErrorList { return checkAttachmentStatus(&a.Status) },
})

// Limits of the status of a VolumeAttachment, in bytes.
const (
	maxErrorMessage       = 1024
	maxAttachmentMetadata = 256 << 10
)

// checkAttachmentStatus returns the errors of the status of a VolumeAttachment.
func checkAttachmentStatus(status *storagev1.VolumeAttachmentStatus) (errs field.ErrorList) {
	path, size := field.NewPath("status"), 0
	for key, value := range status.AttachmentMetadata {
		size += len(key) + len(value)
	}
	if size > maxAttachmentMetadata {
		errs = append(errs, field.TooLong(path.Child("attachmentMetadata"), "", maxAttachmentMetadata))
	}
	for name, failure := range map[string]*storagev1.VolumeError{"attachError": status.AttachError, "detachError": status.DetachError} {
		if failure != nil && len(failure.Message) > maxErrorMessage {
			errs = append(errs, field.TooLong(path.Child(name, "message"), "", maxErrorMessage))
		}
	}
	return errs
}

var csiDriverKind = newKind(kind{resource: storage("csidrivers"), conditional: true}, rules[*storagev1.CSIDriver]{
	setDefaults: func(d *storagev1.CSIDriver) {
		setPointer(&d.Spec.AttachRequired, true)
		setPointer(&d.Spec.PodInfoOnMount, false)
		setPointer(&d.Spec.StorageCapacity, false)
		setPointer(&d.Spec.RequiresRepublish, false)
		setPointer(&d.Spec.SELinuxMount, false)
		setPointer(&d.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(d.Spec.VolumeLifecycleModes) == 0 {
			d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
	},
	prepareUpdate: func(d, old *storagev1.CSIDriver) {
		if !equality.Semantic.DeepEqual(d.Spec.TokenRequests, old.Spec.TokenRequests) ||
			!equality.Semantic.DeepEqual(d.Spec.RequiresRepublish, old.Spec.RequiresRepublish) ||
			!equality.Semantic.DeepEqual(d.Spec.SELinuxMount, old.Spec.SELinuxMount) {
			d.Generation++
		}
	},
	validateUpdate: func(d, old *storagev1.CSIDriver) field.ErrorList {
		errs := immutable(d.Spec.AttachRequired, old.Spec.AttachRequired, specPath.Child("attachedRequired"))
		return append(errs, immutable(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, specPath.Child("volumeLifecycleModes"))...)
	},
})

var capacityKind = newKind(kind{resource: storage("csistoragecapacities"), namespaced: true, conditional: true}, rules[*storagev1.CSIStorageCapacity]{
	validate: func(c *storagev1.CSIStorageCapacity) field.ErrorList {
		return required(c.StorageClassName, field.NewPath("storageClassName"))
	},
	validateUpdate: func(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
		errs := immutable(c.NodeTopology, old.NodeTopology, field.NewPath("nodeTopology"))
		return append(errs, immutable(c.StorageClassName, old.StorageClassName, field.NewPath("storageClassName"))...)
	},
})

var attributesKind = newKind(kind{resource: storage("volumeattributesclasses")}, rules[*storagev1beta1.VolumeAttributesClass]{
	validate: func(c *storagev1beta1.VolumeAttributesClass) field.ErrorList {
		return required(c.DriverName, field.NewPath("driverName"))
	},
	validateUpdate: func(c, old *storagev1beta1.VolumeAttributesClass) field.ErrorList {
		errs := immutable(c.DriverName, old.DriverName, field.NewPath("driverName"))
		return append(errs, immutable(c.Parameters, old.Parameters, field.NewPath("parameters"))...)
	},
})
