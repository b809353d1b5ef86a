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

// A Mounter brings one volume of one pod up.
//
// A volume has one operation in flight at a time: concurrent calls for one path
// wait for each other, as long as their contexts let them.
type Mounter interface {
	Volume
	// SetUp is SetUpAt with GetPath.
	SetUp(ctx context.Context, args MounterArgs) error
	// SetUpAt mounts the volume at dir, which it creates. It is idempotent: on a
	// volume that is up already, as asked, it changes nothing. After an error
	// nothing of this call remains, mounted or on disk, and what was up before is
	// up as it was, unless the error wraps [ErrUncertain]. If the volume is up in
	// another way than asked, or something else is mounted there, it wraps
	// [ErrAlreadyMounted]. An argument that the plugin cannot honour is an error
	// that wraps [ErrNotSupported]. It returns soon after ctx ends, with ctx's
	// error.
	SetUpAt(ctx context.Context, dir string, args MounterArgs) error
	// GetAttributes says what the volume is. It asks the specification alone.
	GetAttributes() Attributes
}

// An Unmounter takes one volume of one pod down, from what is on disk alone.
type Unmounter interface {
	Volume
	// TearDown is TearDownAt with GetPath.
	TearDown(ctx context.Context) error
	// TearDownAt unmounts the volume at dir and removes the directory. It is
	// idempotent: a volume that is not there is no error. It never removes
	// anything that is in the volume. It returns soon after ctx ends, with ctx's
	// error.
	//
	// An error is transient if nothing has been unmounted: the volume is in use, a
	// check failed, ctx ended before. It is uncertain once something has been
	// unmounted, or if that is not known; the same call goes on from there. It is
	// final only if the input is at fault.
	TearDownAt(ctx context.Context, dir string) error
}

// MounterArgs is what a pod asks of its volume.
type MounterArgs struct {
	// ReadOnly: the pod only reads from the volume. A volume whose specification
	// is read-only is mounted so in any case.
	ReadOnly bool
	// FsUser is the user that all containers of the pod run as, if there is one such.
	// It owns what is made for that user alone, tokens and certificates, and nothing
	// else: as in Kubernetes a volume does not become a user's. A plugin that makes no
	// such thing ignores it; it is no error for any.
	FsUser *int64
	// FsGroup owns what is in the volume, if the plugin manages ownership. Nil: left
	// as it is. So is what outlives the pod if the volume's specification is read-only
	// (for a pod whose containers only read, ReadOnly, it is changed all the same, as by
	// the kubelet: the group is to be able to read), and what is in a volume that is up
	// already: the pod may have changed it. A volume that goes with the pod, as an
	// emptyDir, is for the group in any case.
	FsGroup *int64
	// FSGroupChangePolicy says when ownership is changed. Nil: always.
	FSGroupChangePolicy *v1.PodFSGroupChangePolicy
	// DesiredSize limits the volume, if the plugin can. Nil: no limit.
	DesiredSize *resource.Quantity
	// SELinuxLabel is the label to mount the volume with, if the plugin can.
	SELinuxLabel string
}

// Attributes of a volume.
type Attributes struct {
	ReadOnly       bool // mounted read-only whatever the pod asks for
	Managed        bool // ownership is changed to FsGroup
	SELinuxRelabel bool // the files can carry SELinux labels
}
