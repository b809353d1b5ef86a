package volume

import v1 "k8s.io/api/core/v1"

// A Spec names a volume: exactly one of Volume and PersistentVolume is set.
type Spec struct {
	Volume           *v1.Volume
	PersistentVolume *v1.PersistentVolume
	// ReadOnly is set if the pod's use of the claim is read-only.
	ReadOnly bool
}
