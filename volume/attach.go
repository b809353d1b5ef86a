package volume

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/internal/input"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Attacher connects volumes to nodes.
type Attacher interface {
	// Attach connects the volume to the node and returns the path of its device on
	// the node, or another name by which [Attacher.WaitForAttach] finds the volume. The
	// path may be empty. On a volume that is attached to the node it changes nothing.
	//
	// If the volume is attached to another node and cannot be attached to both, the error
	// is a [*DanglingAttachError]. If the node has no room for another volume, it wraps
	// [ErrMaxVolumeCountExceeded]. Both are transient.
	Attach(ctx context.Context, spec *Spec, node types.NodeName) (devicePath string, err error)
	// VolumesAreAttached reports which of the volumes are attached to the node. The
	// result has an entry for each element of specs.
	VolumesAreAttached(ctx context.Context, specs []*Spec, node types.NodeName) (map[*Spec]bool, error)
	// WaitForAttach waits, on the node, until the volume can be used there, and
	// returns the path of its device. It waits until ctx ends.
	WaitForAttach(ctx context.Context, spec *Spec, devicePath string, pod *v1.Pod) (string, error)
}

// A Detacher disconnects volumes from nodes.
type Detacher interface {
	// Detach disconnects the volume from the node. On a volume that is not attached to
	// the node it changes nothing and returns nil.
	Detach(ctx context.Context, req DetachRequest) error
}

// DetachRequest names a volume to disconnect from a node.
type DetachRequest struct {
	// VolumeName is the volume's name as GetVolumeName of [VolumePlugin] returns it. It is
	// always set: after a restart, or once the persistent volume is deleted, the name alone
	// is known.
	VolumeName string
	Node       types.NodeName
	// Spec is the volume's specification. Nil: not known.
	Spec *Spec
}

// ErrMaxVolumeCountExceeded is wrapped by the error of an Attach to a node that has no
// room for another volume. The error is transient: nothing has changed, and the call
// succeeds once another volume has been detached from the node.
var ErrMaxVolumeCountExceeded error = &transientError{"the node exceeds its maximum volume count"}

// A DanglingAttachError is the error of an Attach for a volume that is attached to another
// node. It is transient: nothing has changed, and the call succeeds once the volume has
// been detached from CurrentNode.
type DanglingAttachError struct {
	CurrentNode types.NodeName // the node that the volume is attached to
	DevicePath  string         // the volume's device on that node; empty: not known
	Err         error          // the cause; nil: none besides
}

// Error names the node.
func (e *DanglingAttachError) Error() string {
	text := fmt.Sprintf("the volume is attached to node %s", input.Quote(string(e.CurrentNode)))
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *DanglingAttachError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrTransient].
func (e *DanglingAttachError) Is(target error) bool { return target == ErrTransient }

// A DeviceMounter mounts a volume once for all pods of a node.
type DeviceMounter interface {
	// GetDeviceMountPath returns the path at which the volume is mounted for all pods.
	// It changes nothing, and the directory need not exist.
	GetDeviceMountPath(spec *Spec) (string, error)
	// MountDevice mounts the volume at deviceMountPath, which it creates. It is
	// idempotent. After an error nothing is mounted and nothing is left on disk,
	// unless the error wraps [ErrUncertain].
	MountDevice(ctx context.Context, spec *Spec, deviceMountPath string, args DeviceMounterArgs) error
}

// DeviceMounterArgs holds the node's arguments of MountDevice.
type DeviceMounterArgs struct {
	// DevicePath is the result of WaitForAttach. Empty: the volume was not attached.
	DevicePath string
	// FsGroup is the group of the first pod that uses the volume. It becomes the owner of
	// the volume's files if the plugin changes ownership in MountDevice. Plugins that change
	// ownership in SetUp, or never, ignore it without an error. Nil: owners stay.
	FsGroup *int64
	// SELinuxLabel is the label to mount the volume with. A plugin that cannot mount with a
	// label returns an error that wraps [ErrNotSupported].
	SELinuxLabel string
}

// A DeviceUnmounter undoes MountDevice of a [DeviceMounter].
type DeviceUnmounter interface {
	// UnmountDevice unmounts the volume at deviceMountPath and removes the directory.
	// If nothing is mounted there it returns nil. It never removes a file of the volume.
	// The caller has checked that no pod uses the volume.
	UnmountDevice(ctx context.Context, deviceMountPath string) error
}
