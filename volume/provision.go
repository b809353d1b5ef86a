package volume

import (
	"context"
	"errors"

	"github.com/volumekit/volumekit/internal/input"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A BlockProvisioner is a [ProvisionableVolumePlugin] that may provision raw block devices.
// A claim with volumeMode Block is never passed to a plugin without this ability.
type BlockProvisioner interface {
	// SupportsBlock reports whether the plugin provisions raw block devices. If ctx ends
	// first it returns false.
	SupportsBlock(ctx context.Context) bool
}

// A SourceProvisioner is a [ProvisionableVolumePlugin] that may fill new volumes with the content of the data source
// of their claim (dataSource and dataSourceRef). A claim with a data source is never passed to a plugin without this
// ability: its volume would be empty.
type SourceProvisioner interface {
	// SupportsSource reports whether the plugin fills volumes from sources of a kind, such as PersistentVolumeClaim of
	// the core group "". A kind that is neither that nor a VolumeSnapshot of snapshot.storage.k8s.io is served by a
	// volume populator if the plugin does not support it: claims with such a source are not the plugin's. If ctx ends
	// first it returns false.
	SupportsSource(ctx context.Context, kind schema.GroupKind) bool
}

// A Provisioner creates the storage of one volume.
type Provisioner interface {
	// Provision creates the storage and returns the persistent volume that
	// describes it: name, source, capacity, access modes, volume mode, mount options, reclaim
	// policy, attributes class and, for storage that not every node reaches, node affinity.
	// The caller adds claimRef, storage class, annotations and finalizers, and stores the
	// object. The volume may have a [ProvisioningNoteAnnotation] and a [StorageAnnotation].
	//
	// Provision is idempotent for one VolumeOptions.PVName, also after a restart.
	//
	// The kind of an error tells the caller how to go on:
	//
	//   - final: no storage exists for PVName (ProvisioningFinished). If the error wraps
	//     [ErrReschedule], the selected node is the obstacle; if it wraps [ErrInfeasible], the
	//     claim or its class is; if it is an [*IgnoredError], another provisioner is responsible.
	//   - transient: the call changed nothing (ProvisioningNoChange). Storage of an earlier,
	//     uncertain call may still exist.
	//   - uncertain: storage exists or is being created (ProvisioningInBackground). The caller
	//     repeats the call with the same options, apart from MayExist, until it succeeds or its error
	//     is final, also if the claim is deleted meanwhile.
	Provision(ctx context.Context) (*v1.PersistentVolume, error)
}

// ProvisioningNoteAnnotation is an annotation of a new volume with a fact for the user of the claim, such as a
// size that no quota enforces. The event of the claim's success shows the text.
const ProvisioningNoteAnnotation = "volumekit.io/provisioning-note"

// StorageAnnotation is an annotation of a new volume with the name of the storage system that has it. The name is
// unique, and survives a change of the system's address. If two programs provision for one claim, each in a system of
// its own, the later one sees by the annotations of both volumes that it deletes its own one, and not the other's: two
// systems must not have one name, and one system must not have two. A Provisioner that has one system for all
// programs of its name needs no annotation.
const StorageAnnotation = "volumekit.io/storage"

// VolumeOptions describes a volume to be created. The zero value of each field but PVName
// requests nothing.
type VolumeOptions struct {
	// PVName is the name of the new persistent volume, unique in the cluster.
	PVName string
	// PVC is the claim that asks for the volume. Nil: a program without claims asks.
	PVC *v1.PersistentVolumeClaim
	// StorageClass is the claim's class, with its parameters, mount options, reclaim policy and
	// allowed topologies. The zero value is no class.
	StorageClass storagev1.StorageClass
	// VolumeAttributesClass is the claim's attributes class. The zero value is none.
	VolumeAttributesClass VolumeAttributesClass
	// SelectedNode is the node on which the first pod will run, if the class binds its volumes
	// for the first consumer. Nil: any node.
	SelectedNode *v1.Node
	// MayExist reports that an earlier call for PVName, perhaps of another process, may have created the
	// storage. Conditions of a new volume that such storage need not meet any more, as a source that still
	// exists, must not prevent the call from finding it.
	MayExist bool
}

// A VolumeAttributesClass has the fields of VolumeAttributesClass of k8s.io/api that
// describe a volume. That type is in different packages in different versions of Kubernetes.
type VolumeAttributesClass struct {
	Name       string
	DriverName string
	Parameters map[string]string
}

// ErrReschedule is wrapped by the error of a Provision that failed because of the selected
// node, and may succeed for another node (ProvisioningReschedule). No storage exists for
// PVName, unless the error wraps [ErrUncertain] as well. The caller lets the scheduler select
// another node.
var ErrReschedule = errors.New("cannot be provisioned for the selected node")

// An IgnoredError is the error of a Provision or Delete of a volume that belongs to another
// provisioner. It is final, and nothing has changed. The caller reports no failure.
type IgnoredError struct {
	Reason string
}

// Error returns the reason.
func (e *IgnoredError) Error() string { return "ignored because " + input.Shorten(e.Reason) }

// A Deleter deletes the storage of one volume with all its files.
type Deleter interface {
	// Delete deletes the storage. If the storage does not exist it returns nil.
	// Storage in use is an error that wraps [ErrTransient]. A volume of another provisioner is
	// an [*IgnoredError]. After an error that wraps [ErrUncertain] part of the storage may be
	// deleted: the volume must not be used again, and the caller repeats Delete.
	Delete(ctx context.Context) error
}
