package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A Volume is a directory (or, in block mode, a device) on this node.
type Volume interface {
	// GetPath returns the path of the volume for the pod.
	GetPath() string
	MetricsProvider
}

// A Mounter sets up one volume for one pod.
//
// A volume has one operation in flight at a time: concurrent calls for one path wait for
// each other, as long as their contexts last.
type Mounter interface {
	Volume
	// SetUp is SetUpAt with GetPath.
	SetUp(ctx context.Context, args MounterArgs) error
	// SetUpAt mounts the volume at dir, which it creates. It is idempotent: if the volume is
	// set up with the same arguments it changes nothing. After an error nothing of this call
	// remains, mounted or on disk, and an earlier set-up is unchanged, unless the error wraps
	// [ErrUncertain]. If the volume is set up with other arguments, or another file system is
	// mounted there, the error wraps [ErrAlreadyMounted]. An argument that the plugin cannot
	// honour is an error that wraps [ErrNotSupported]. If the volume has to be mounted for all
	// pods before, by [DeviceMounter], and is not, the error is transient and wraps
	// [ErrNotMounted]. It returns soon after ctx ends, with ctx's error.
	SetUpAt(ctx context.Context, dir string, args MounterArgs) error
	// GetAttributes returns the volume's attributes. It reads the specification alone.
	GetAttributes() Attributes
}

// An Unmounter tears down one volume of one pod, by the state on disk and in the mount table
// alone.
type Unmounter interface {
	Volume
	// TearDown is TearDownAt with GetPath.
	TearDown(ctx context.Context) error
	// TearDownAt unmounts the volume at dir and removes the directory. It is idempotent: a
	// volume that is not set up is no error. It removes no file of a volume that outlives the
	// pod. It returns soon after ctx ends, with ctx's error.
	//
	// An error is transient if nothing has been unmounted: the volume is in use, a check
	// failed, ctx ended before. It is uncertain once a mount has been unmounted, or if that is
	// not known; the same call continues. It is final only for invalid input.
	TearDownAt(ctx context.Context, dir string) error
}

// MounterArgs holds a pod's requirements for its volume, and the node's paths.
type MounterArgs struct {
	// ReadOnly: the pod only reads from the volume. A volume whose specification
	// is read-only is mounted so in any case.
	ReadOnly bool
	// FsUser is the user of all containers of the pod, if they have a common one. It owns
	// files that are made for that user alone, tokens and certificates, and no others: as in
	// Kubernetes a volume does not become a user's. Plugins without such files ignore it,
	// without an error.
	FsUser *int64
	// FsGroup becomes the group of the volume's files, if the plugin manages ownership. Nil:
	// owners stay. They also stay if the specification is read-only and the volume outlives
	// the pod (but not if only ReadOnly is set: as with the kubelet the group must be able to
	// read), and in a volume that is set up already: the pod may have changed them. An
	// ephemeral volume, such as an emptyDir, gets the group in any case.
	FsGroup *int64
	// FSGroupChangePolicy says when ownership is changed. Nil: always.
	FSGroupChangePolicy *v1.PodFSGroupChangePolicy
	// DesiredSize limits the volume, if the plugin can. Nil: no limit.
	DesiredSize *resource.Quantity
	// SELinuxLabel is the label to mount the volume with. A plugin that cannot mount with a
	// label returns an error that wraps [ErrNotSupported].
	SELinuxLabel string
	// DevicePath is the result of WaitForAttach. Empty: the volume is not attached.
	DevicePath string
	// DeviceMountPath is the path at which MountDevice has mounted the volume for all pods.
	// Empty: the volume is not mounted so.
	DeviceMountPath string
	// IsRemount says that the volume is set up for the pod already, or may be: the call
	// brings its content up to date, or repeats a call after a restart or an uncertain error.
	// A plugin whose driver does not report whether a failed call changed the volume keeps the
	// directory and its state on disk then, since the pod may be using them. If a file of
	// the node was replaced since, a [RenewableVolumePlugin] keeps the mount of the earlier one with
	// IsRemount, and mounts the new one without.
	IsRemount bool
}

// Attributes of a volume.
type Attributes struct {
	ReadOnly       bool // mounted read-only, also for a pod that would write
	Managed        bool // ownership is changed to FsGroup
	SELinuxRelabel bool // the files can carry SELinux labels
}

// A ReconstructedVolume is the result of ConstructVolumeSpec and ConstructBlockVolumeSpec. It
// is the zero value if they return an error.
type ReconstructedVolume struct {
	// Spec is the specification that the volume was set up by, as far as it can be recovered. It
	// is never nil without an error.
	Spec *Spec
	// SELinuxMountContext is the label that the volume is mounted with. Empty: with none. The
	// manager, which mounts without labels, ignores it.
	SELinuxMountContext string
	// DevicePath is the result of WaitForAttach, if the plugin has recorded it. The manager
	// passes it to later calls.
	DevicePath string
	// StagingPath is the result of SetUpDevice for a block volume, if the plugin has recorded it.
	StagingPath string
}
