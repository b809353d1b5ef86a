package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// A Provisioner creates the storage of one volume.
type Provisioner interface {
	// Provision creates the storage and returns the persistent volume that
	// describes it, for the caller to put into the API. It is idempotent for one
	// PVName. After an error that wraps [ErrUncertain] storage may have been
	// created: call it again rather than give up.
	Provision(ctx context.Context) (*v1.PersistentVolume, error)
}

// VolumeOptions describes a volume that does not exist yet.
type VolumeOptions struct {
	PVName string                    // of the persistent volume to be
	PVC    *v1.PersistentVolumeClaim // that asks for it

	// From the storage class.
	PersistentVolumeReclaimPolicy v1.PersistentVolumeReclaimPolicy
	MountOptions                  []string
	Parameters                    map[string]string

	SelectedNode      *v1.Node                  // where the pod is to run; nil: anywhere
	AllowedTopologies []v1.TopologySelectorTerm // where storage may be; empty: anywhere
}

// A Deleter deletes the storage of one volume, with everything in it.
type Deleter interface {
	// Delete deletes the storage. Storage that is gone already is no error.
	// Storage in use is an error that wraps [ErrTransient]. After an error that
	// wraps [ErrUncertain] it may be half gone: it is not to be used again, and
	// Delete is to be called again.
	Delete(ctx context.Context) error
}
