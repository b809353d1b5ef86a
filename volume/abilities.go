package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The abilities are further interfaces that some plugins implement besides [VolumePlugin].
// [As] finds them. Their methods are idempotent and safe for concurrent use, methods
// named New check their input and change nothing, and the kind of an error is the condition
// of the volume afterwards. Methods with a context return soon after it ends.

// A PersistentVolumePlugin serves persistent volumes.
type PersistentVolumePlugin interface {
	// GetAccessModes returns the access modes that volumes of this kind can have.
	// The slice is the caller's.
	GetAccessModes() []v1.PersistentVolumeAccessMode
}

// A MountOptionsVolumePlugin honours mount options. A plugin without this ability must be
// given none.
type MountOptionsVolumePlugin interface {
	// SupportsMountOption reports whether [Spec.MountOptions] are honoured.
	SupportsMountOption() bool
}

// A RemountVolumePlugin has volumes with changing content, such as that of an API object.
type RemountVolumePlugin interface {
	// RequiresRemount reports whether the caller repeats SetUp periodically while the volume
	// is set up, to update its content.
	RequiresRemount(spec *Spec) bool
}

// A RenewableVolumePlugin has volumes that are files or directories of the node. Other programs may
// replace those, as a daemon does its socket; a mount stays with the earlier one.
type RenewableVolumePlugin interface {
	// IsRenewable reports whether the volume needs another SetUp, without [MounterArgs].IsRemount,
	// before a container starts in a pod for which the volume is set up already. That SetUp
	// mounts what is at the path by then; running containers keep their own mounts of the
	// earlier file. If the plugin cannot mount it, the earlier mount stays, unless the error wraps
	// [ErrUncertain].
	IsRenewable(spec *Spec) bool
}

// A SELinuxVolumePlugin can mount with one SELinux label for all files.
type SELinuxVolumePlugin interface {
	// SupportsSELinuxContextMount reports whether SELinuxLabel of [MounterArgs] and
	// [DeviceMounterArgs] is honoured for the volume.
	SupportsSELinuxContextMount(spec *Spec) (bool, error)
}

// A RecyclableVolumePlugin can empty a released volume for the next claim.
type RecyclableVolumePlugin interface {
	Recycler
}

// A DeletableVolumePlugin can delete the storage behind a volume.
type DeletableVolumePlugin interface {
	// NewDeleter returns the deleter of a released persistent volume. A volume of another
	// provisioner is an [*IgnoredError], here or of Delete.
	NewDeleter(spec *Spec) (Deleter, error)
}

// A ProvisionableVolumePlugin can create storage for a claim. For raw block devices see
// [BlockProvisioner], for copies and snapshots [SourceProvisioner].
type ProvisionableVolumePlugin interface {
	// NewProvisioner returns the provisioner of one volume. Options that the plugin cannot
	// fulfil are an error as of Provision, here or there.
	NewProvisioner(options VolumeOptions) (Provisioner, error)
}

// An AttachableVolumePlugin has volumes that must be attached to a node before they can be
// mounted there.
type AttachableVolumePlugin interface {
	NewAttacher() (Attacher, error)
	NewDetacher() (Detacher, error)
	// CanAttach reports whether this volume has to be attached.
	CanAttach(ctx context.Context, spec *Spec) (bool, error)
}

// A DeviceMountableVolumePlugin has volumes that are mounted once per node, in a directory of
// the plugin, and from there for each pod.
type DeviceMountableVolumePlugin interface {
	NewDeviceMounter() (DeviceMounter, error)
	NewDeviceUnmounter() (DeviceUnmounter, error)
	// GetDeviceMountRefs returns the other mount points of the mount at deviceMountPath. The
	// caller does not unmount the device while there is one. For a missing path the list is
	// empty, without an error.
	GetDeviceMountRefs(ctx context.Context, deviceMountPath string) ([]string, error)
	// CanDeviceMount reports whether this volume is mounted once per node.
	CanDeviceMount(ctx context.Context, spec *Spec) (bool, error)
}

// A DeviceUseVolumePlugin detects that the kernel still uses a device.
type DeviceUseVolumePlugin interface {
	DeviceMountableVolumePlugin
	// VerifiesDeviceUse reports whether UnmountDevice fails while the kernel uses the
	// device, also without a visible mount point: a mount that was detached from the tree
	// (MNT_DETACH) ends when its last open file is closed. Only then may a caller detach a
	// busy mount of a pod that is gone.
	VerifiesDeviceUse() bool
}

// A BackendVolumePlugin has volumes that share a server or a device.
type BackendVolumePlugin interface {
	// GetBackendName returns a name for the server or device that operations on the volume
	// wait for. It is equal for volumes with the same server or device. The manager limits
	// the operations in flight for each name, so that a server that does not answer costs
	// volumes of other servers no worker. Empty: no other volume waits for the same one. It
	// reads the specification alone.
	GetBackendName(spec *Spec) (string, error)
}

// An ExpandableVolumePlugin can make the storage behind a volume larger.
type ExpandableVolumePlugin interface {
	// ExpandVolumeDevice makes the storage at least as large as req.NewSize, and reports the
	// size and whether a node has work to do. It never makes storage smaller: if the storage
	// is large enough it changes nothing. A size that the storage can never have is an error
	// that wraps [ErrInfeasible]; a volume that cannot grow while it is in use,
	// [ErrFailedPrecondition]. After an uncertain error the caller repeats the call.
	ExpandVolumeDevice(ctx context.Context, req ExpandRequest) (ExpandResult, error)
}

// A NodeExpandableVolumePlugin grows the file system of a volume, on a node where it
// is mounted, to the size of its storage.
type NodeExpandableVolumePlugin interface {
	// NodeExpand reports whether the volume has req.NewSize now. It returns false without an
	// error if the volume cannot be grown yet, in its present state. If the node has no work
	// to do for this volume, the error wraps [ErrNotSupported]: the answer may differ between
	// volumes, and for one volume between calls. A size that the file system can never have
	// is an error that wraps [ErrInfeasible]; a volume that cannot grow while it is mounted,
	// [ErrFailedPrecondition]. The manager calls NodeExpand for volumes that are set up in a pod
	// which may write to them.
	NodeExpand(ctx context.Context, req NodeResizeOptions) (bool, error)
}

// A BlockVolumePlugin can give a volume to a pod as a raw block device.
type BlockVolumePlugin interface {
	// NewBlockVolumeMapper returns the mapper of the volume for the pod.
	NewBlockVolumeMapper(spec *Spec, pod *v1.Pod) (BlockVolumeMapper, error)
	// NewBlockVolumeUnmapper returns the unmapper of a volume, which is named by
	// [Spec.Name].
	NewBlockVolumeUnmapper(volumeName string, podUID types.UID) (BlockVolumeUnmapper, error)
	// ConstructBlockVolumeSpec recovers the volume that is mapped at mapPath from files, after
	// a restart. If no volume is mapped there the error wraps [ErrNotMounted]; if one is and
	// its specification cannot be recovered, [ErrUncertain].
	ConstructBlockVolumeSpec(ctx context.Context, podUID types.UID, volumeName, mapPath string) (ReconstructedVolume, error)
}

// A PathVolumePlugin takes down and measures volumes by their paths alone, for programs that
// serve volumes at paths of their callers and know no pods, such as a CSI driver. All plugins
// of this module are PathVolumePlugins.
type PathVolumePlugin interface {
	// NewUnmounterAt returns the unmounter of the volume that SetUpAt has mounted at path: its
	// GetPath is path, its GetMetrics measures the volume there. A path that is neither below
	// the host's root nor below one of its target directories is a [*field.Error].
	NewUnmounterAt(path string) (Unmounter, error)
}
