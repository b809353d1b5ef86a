package volume

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ExpandRequest asks for larger storage behind a volume.
type ExpandRequest struct {
	Spec    *Spec
	NewSize resource.Quantity // the requested size in bytes
	OldSize resource.Quantity // the size in bytes when the request was made
}

// ExpandResult is the outcome of an [ExpandRequest].
type ExpandResult struct {
	// Size of the storage in bytes, at least NewSize.
	Size resource.Quantity
	// NodeExpansionRequired says that the volume has the new size only after NodeExpand of
	// [NodeExpandableVolumePlugin] on a node that uses the volume. If it is false the
	// expansion is complete.
	NodeExpansionRequired bool
}

// NodeResizeOptions asks for a larger file system on a node.
type NodeResizeOptions struct {
	Spec    *Spec
	NewSize resource.Quantity // of the storage in bytes
	OldSize resource.Quantity // of the file system in bytes; zero: not known

	// VolumePath is the path of the volume in Pod: the directory, or the device. Empty: the
	// volume is set up in no pod.
	VolumePath string
	// Pod is a pod that uses the volume at VolumePath. If several pods use the volume, the
	// manager passes one that may write to it. Nil: not known.
	Pod *v1.Pod
	// Claim is the claim that Pod uses the volume by. Nil: there is none, or it is not known.
	Claim *v1.PersistentVolumeClaim

	DevicePath      string // the result of WaitForAttach; empty: the volume is not attached
	DeviceMountPath string // where the volume is mounted for all pods; empty: nowhere
	// DeviceStagePath is where the volume was staged: DeviceMountPath, or the result of
	// SetUpDevice. Empty: nowhere.
	DeviceStagePath string
}
