package volume

import "k8s.io/apimachinery/pkg/api/resource"

// ExpandRequest asks for larger storage behind a volume.
type ExpandRequest struct {
	Spec    *Spec
	NewSize resource.Quantity // asked for, in bytes
	OldSize resource.Quantity // when the request was made, in bytes
}

// ExpandResult is what became of an [ExpandRequest].
type ExpandResult struct {
	Size resource.Quantity // of the storage now, in bytes
}

// NodeResizeOptions asks for a larger file system on a node.
type NodeResizeOptions struct {
	Spec    *Spec
	NewSize resource.Quantity // of the storage, in bytes
	OldSize resource.Quantity // of the file system as far as it is known, in bytes

	DevicePath      string // of the volume's device; empty if it has none
	DeviceMountPath string // where the volume is mounted for all pods, if it is
	DeviceStagePath string // where the device was staged, if it was
}
