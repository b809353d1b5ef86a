package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Attacher connects volumes to nodes.
type Attacher interface {
	// Attach connects the volume to the node and returns what the node will need
	// to find it, which may be empty. A volume that is attached to that node
	// already is no error.
	Attach(ctx context.Context, spec *Spec, node types.NodeName) (devicePath string, err error)
	// VolumesAreAttached reports which of the volumes are attached to the node. The
	// answer has an entry for each of specs.
	VolumesAreAttached(ctx context.Context, specs []*Spec, node types.NodeName) (map[*Spec]bool, error)
	// WaitForAttach waits, on the node, until the volume can be used there, and
	// returns the path of its device. How long is for ctx to say.
	WaitForAttach(ctx context.Context, spec *Spec, devicePath string, pod *v1.Pod) (string, error)
}

// A Detacher disconnects volumes from nodes.
type Detacher interface {
	// Detach disconnects the volume of that name, see GetVolumeName of
	// [VolumePlugin], from the node. A volume that is not attached is no error.
	Detach(ctx context.Context, volumeName string, node types.NodeName) error
}

// A DeviceMounter mounts a volume once for all pods of a node.
type DeviceMounter interface {
	// GetDeviceMountPath returns where the volume is mounted once. It changes
	// nothing, and the directory need not exist.
	GetDeviceMountPath(spec *Spec) (string, error)
	// MountDevice mounts the volume at deviceMountPath, which it creates. It is
	// idempotent. After an error nothing is mounted and nothing is left on disk,
	// unless the error wraps [ErrUncertain].
	MountDevice(ctx context.Context, spec *Spec, deviceMountPath string, args DeviceMounterArgs) error
}

// DeviceMounterArgs is what the node asks of a volume that is mounted once.
type DeviceMounterArgs struct {
	// DevicePath is what WaitForAttach returned. Empty: the volume was not attached.
	DevicePath string
	// FsGroup is the group of the first pod that uses the volume. It owns what is in
	// the volume, if the plugin manages ownership here; one that does so in SetUp, or
	// not at all, ignores it, and it is no error for any. Nil: left as it is.
	FsGroup *int64
	// SELinuxLabel is the label to mount the volume with, if the plugin can.
	SELinuxLabel string
}

// A DeviceUnmounter undoes what a [DeviceMounter] did.
type DeviceUnmounter interface {
	// UnmountDevice unmounts what is at deviceMountPath and removes the directory.
	// A path at which nothing is mounted is no error. It never removes anything
	// that is in the volume. The caller has seen that no pod uses it any more.
	UnmountDevice(ctx context.Context, deviceMountPath string) error
}
