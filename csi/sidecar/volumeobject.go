package sidecar

import (
	"fmt"
	"maps"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// describe returns the object of a created volume. Package provision adds the fields that follow from the claim
// and the class, and refuses a volume that the claim cannot have.
func (p *provisioner) describe(r *createRequest, o provision.Options, created *csipb.Volume) *v1.PersistentVolume {
	source := &v1.CSIPersistentVolumeSource{
		Driver: p.driver.name, VolumeHandle: created.GetVolumeId(), VolumeAttributes: maps.Clone(created.GetVolumeContext()),
		ReadOnly:                   p.isReadOnly(r),
		ControllerPublishSecretRef: r.secrets[forControllerPublish], ControllerExpandSecretRef: r.secrets[forControllerExpand],
		NodeStageSecretRef: r.secrets[forNodeStage], NodePublishSecretRef: r.secrets[forNodePublish], NodeExpandSecretRef: r.secrets[forNodeExpand],
	}
	if !r.usage.isBlock {
		source.FSType = r.usage.fsType
	}
	bytes := created.GetCapacityBytes()
	if bytes == 0 { // not known, as for a share
		bytes = r.call.GetCapacityRange().GetRequiredBytes()
	}
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName, Annotations: map[string]string{
			deletionSecretNameAnnotation: "", deletionSecretNamespaceAnnotation: "",
		}},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:            slices.Clone(o.PVC.Spec.AccessModes),
			MountOptions:           slices.Clone(o.StorageClass.MountOptions),
			Capacity:               v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)},
			VolumeMode:             o.PVC.Spec.VolumeMode,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: source},
		},
	}
	if ref := r.secrets[forProvisioner]; ref != nil {
		pv.Annotations[deletionSecretNameAnnotation], pv.Annotations[deletionSecretNamespaceAnnotation] = ref.Name, ref.Namespace
	}
	if ref := r.secrets[forControllerModify]; ref != nil {
		pv.Annotations[modifySecretNameAnnotation], pv.Annotations[modifySecretNamespaceAnnotation] = ref.Name, ref.Namespace
	}
	if p.nodes != nil {
		pv.Spec.NodeAffinity = affinityOf(created.GetAccessibleTopology())
	}
	return pv
}

// mostVolumeBytes is the largest answer that is stored. The specification allows 128 bytes for a text and 4 KiB for a
// map, and an API server stores objects of about 1.5 MiB.
const mostVolumeBytes = 256 << 10

// checkVolume returns the reason for which the claim cannot have a created volume.
func (r *createRequest) checkVolume(created *csipb.Volume) error {
	if r.call.VolumeContentSource != nil && created.GetContentSource() == nil {
		return fmt.Errorf("the driver has created an empty volume in place of a copy: %w", volume.ErrInfeasible)
	}
	if size := proto.Size(created); size > mostVolumeBytes {
		return fmt.Errorf("the driver describes the volume by %d bytes, more than %d: %w", size, mostVolumeBytes, volume.ErrInfeasible)
	}
	return nil
}

// isReadOnly reports whether the volume is read-only: its mode is ReadOnlyMany alone. Without
// ProvisionConfig.ReadOnlyVolumes only a copy is.
func (p *provisioner) isReadOnly(r *createRequest) bool {
	return (p.config.ReadOnlyVolumes || r.call.VolumeContentSource != nil) && len(r.call.VolumeCapabilities) == 1 &&
		r.call.VolumeCapabilities[0].GetAccessMode().GetMode() == csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
}
