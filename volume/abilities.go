package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The abilities: what some plugins can do besides [VolumePlugin]. [As] finds
// them. As there, methods are idempotent and safe for concurrent use, methods
// named New check their input and change nothing, and errors say by their kind
// what is true afterwards. What takes a context returns soon after it ends.

// A PersistentVolumePlugin serves persistent volumes.
type PersistentVolumePlugin interface {
	// GetAccessModes returns the access modes that volumes of this kind can have.
	// The slice is the caller's.
	GetAccessModes() []v1.PersistentVolumeAccessMode
}

// A MountOptionsVolumePlugin passes mount options on to what it mounts. A plugin
// without this ability must be given none.
type MountOptionsVolumePlugin interface {
	// SupportsMountOption reports whether [Spec.MountOptions] are honoured.
	SupportsMountOption() bool
}

// A RemountVolumePlugin has volumes whose content follows something else, such
// as an API object.
type RemountVolumePlugin interface {
	// RequiresRemount reports whether SetUp is to be called again from time to
	// time while the volume is up, so that its content is brought up to date.
	RequiresRemount(spec *Spec) bool
}

// A SELinuxVolumePlugin can mount with one SELinux label for all files.
type SELinuxVolumePlugin interface {
	// SupportsSELinuxContextMount reports whether SELinuxLabel of [MounterArgs] and
	// [DeviceMounterArgs] is honoured for the volume.
	SupportsSELinuxContextMount(spec *Spec) (bool, error)
}

// A RecyclableVolumePlugin can make a released volume as good as new.
type RecyclableVolumePlugin interface {
	Recycler
}

// A DeletableVolumePlugin can delete the storage behind a volume.
type DeletableVolumePlugin interface {
	// NewDeleter returns the deleter of a released persistent volume.
	NewDeleter(spec *Spec) (Deleter, error)
}

// A ProvisionableVolumePlugin can create storage for a claim.
type ProvisionableVolumePlugin interface {
	// NewProvisioner returns the provisioner of one volume.
	NewProvisioner(options VolumeOptions) (Provisioner, error)
}

// An AttachableVolumePlugin has volumes that must be attached to a node before
// they can be mounted there.
type AttachableVolumePlugin interface {
	NewAttacher() (Attacher, error)
	NewDetacher() (Detacher, error)
	// CanAttach reports whether this volume has to be attached.
	CanAttach(spec *Spec) (bool, error)
}

// A DeviceMountableVolumePlugin has volumes that are mounted once per node, at a
// place of the plugin's own, and from there for each pod.
type DeviceMountableVolumePlugin interface {
	NewDeviceMounter() (DeviceMounter, error)
	NewDeviceUnmounter() (DeviceUnmounter, error)
	// GetDeviceMountRefs returns the other mount points of what is mounted at
	// deviceMountPath. While there is one the device is not to be unmounted. Of a
	// path that is missing there are none, and that is no error.
	GetDeviceMountRefs(ctx context.Context, deviceMountPath string) ([]string, error)
	// CanDeviceMount reports whether this volume is mounted once per node.
	CanDeviceMount(spec *Spec) (bool, error)
}

// An ExpandableVolumePlugin can make the storage behind a volume larger.
type ExpandableVolumePlugin interface {
	// ExpandVolumeDevice makes the storage at least as large as req.NewSize and
	// returns the size it has then. On a volume that is as large already it
	// changes nothing.
	ExpandVolumeDevice(ctx context.Context, req ExpandRequest) (ExpandResult, error)
	// RequiresFSResize reports whether the file system must be grown on a node
	// afterwards, see [NodeExpandableVolumePlugin].
	RequiresFSResize() bool
}

// A NodeExpandableVolumePlugin grows a volume's file system, on a node where it
// is mounted, to the size of the storage behind it.
type NodeExpandableVolumePlugin interface {
	// NodeExpand reports whether the volume has req.NewSize now. It is false
	// without an error if it cannot be done yet, in the volume's present state.
	NodeExpand(ctx context.Context, req NodeResizeOptions) (bool, error)
	// RequiresFSResize reports whether there is anything to grow.
	RequiresFSResize() bool
}

// A BlockVolumePlugin can give a volume to a pod as a raw block device.
type BlockVolumePlugin interface {
	// NewBlockVolumeMapper returns the mapper of the volume for the pod.
	NewBlockVolumeMapper(spec *Spec, pod *v1.Pod) (BlockVolumeMapper, error)
	// NewBlockVolumeUnmapper returns the unmapper of a volume, which is named by
	// [Spec.Name].
	NewBlockVolumeUnmapper(volumeName string, podUID types.UID) (BlockVolumeUnmapper, error)
	// ConstructBlockVolumeSpec recovers the specification of the volume that is
	// mapped at mapPath from what is on disk, after a restart. If nothing is
	// mapped there the error wraps [ErrNotMounted].
	ConstructBlockVolumeSpec(ctx context.Context, podUID types.UID, volumeName, mapPath string) (*Spec, error)
}
