package provision

import (
	"errors"
	"slices"

	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/util"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errNoSource is the error for a volume that describes no storage.
var errNoSource = errors.New("Provision returned a volume without a source")

// describe returns the object to store for a provisioned volume. The error names a field with which
// the binder would not bind the volume to its claim.
func (r rules) describe(o Options, provisioned *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	pv := provisioned.DeepCopy()
	pv.ObjectMeta = metav1.ObjectMeta{
		Name: o.PVName, Labels: pv.Labels, Annotations: pv.Annotations, Finalizers: pv.Finalizers, OwnerReferences: pv.OwnerReferences,
	}
	pv.Status = v1.PersistentVolumeStatus{}
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, ProvisionedByAnnotation, o.StorageClass.Provisioner)
	completeSpec(&pv.Spec, o)
	if r.guardsVolumes && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete && !slices.Contains(pv.Finalizers, r.volumeFinalizer) {
		pv.Finalizers = append(pv.Finalizers, r.volumeFinalizer)
	}
	if pv.Spec.PersistentVolumeSource == (v1.PersistentVolumeSource{}) {
		return pv, errNoSource
	}
	node := o.SelectedNode
	if node != nil && node.UID == "" { // the node does not exist any more
		node = nil
	}
	return pv, util.MatchVolume(o.PVC, pv, node)
}

// completeSpec sets the fields of the controller, and the empty fields that follow from the claim
// and from its class.
func completeSpec(spec *v1.PersistentVolumeSpec, o Options) {
	claim, class := o.PVC, &o.StorageClass
	spec.ClaimRef = &v1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
		UID: claim.UID, ResourceVersion: claim.ResourceVersion,
	}
	spec.StorageClassName, _ = storageclass.Named(claim)
	if spec.PersistentVolumeReclaimPolicy == "" {
		spec.PersistentVolumeReclaimPolicy = storageclass.PolicyOf(class)
	}
	if spec.MountOptions == nil {
		spec.MountOptions = slices.Clone(class.MountOptions)
	}
	if len(spec.AccessModes) == 0 {
		spec.AccessModes = slices.Clone(claim.Spec.AccessModes)
	}
	if spec.VolumeMode == nil {
		spec.VolumeMode = claim.Spec.VolumeMode
	}
	if spec.Capacity == nil {
		spec.Capacity = v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]}
	}
	if spec.VolumeAttributesClassName == nil {
		spec.VolumeAttributesClassName = claim.Spec.VolumeAttributesClassName
	}
}
