package manager

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Attachment is a request to attach a volume to a node, or to detach it.
type Attachment struct {
	Plugin volume.VolumePlugin
	Volume v1.UniqueVolumeName
	Name   string       // as returned by GetVolumeName
	Spec   *volume.Spec // nil to detach a volume whose specification was not reconstructed
	Node   types.NodeName
	Pod    *v1.Pod // the first pod that needs the volume; nil to detach
}

// An Attacher connects volumes to this node. It is called from several goroutines, one
// at a time for each volume.
type Attacher interface {
	// Attach returns the device's path, which may be empty, once the volume is attached and its
	// device exists. It is idempotent. An error has a kind, see volume.KindOf.
	Attach(ctx context.Context, a Attachment) (devicePath string, err error)
	// Detach returns once the volume is detached, or once the program that detaches it has been
	// informed that this node has released the volume. When Detach is called nothing of the
	// volume is mounted, and GetVolumesInUse no longer lists it, unless a pod has needed it
	// since. Detach returns nil if the volume is not attached.
	Detach(ctx context.Context, a Attachment) error
}

// A configuredAttacher runs the attach operations of a runner with an Attacher.
type configuredAttacher struct{ Attacher }

func (c configuredAttacher) Attach(ctx context.Context, a execution.Attachment) (string, error) {
	return c.Attacher.Attach(ctx, Attachment(a))
}

func (c configuredAttacher) Detach(ctx context.Context, a execution.Attachment) error {
	return c.Attacher.Detach(ctx, Attachment(a))
}

// pluginAttacher attaches by the plugins' own attachers.
type pluginAttacher struct{}

func (pluginAttacher) Attach(ctx context.Context, a Attachment) (string, error) {
	able, err := ability.Attachable(a.Plugin)
	if err != nil {
		return "", err
	}
	attacher, err := able.NewAttacher()
	if err != nil {
		return "", err
	}
	path, err := attacher.Attach(ctx, a.Spec, a.Node)
	if err != nil {
		return "", err
	}
	path, err = attacher.WaitForAttach(ctx, a.Spec, path, a.Pod)
	if err != nil {
		return "", volume.AsUncertain(fmt.Errorf("wait for the device of the attached volume: %w", err))
	}
	return path, nil
}

func (pluginAttacher) Detach(ctx context.Context, a Attachment) error {
	able, err := ability.Attachable(a.Plugin)
	if err != nil {
		return err
	}
	detacher, err := able.NewDetacher()
	if err != nil {
		return err
	}
	return detacher.Detach(ctx, volume.DetachRequest{VolumeName: a.Name, Node: a.Node, Spec: a.Spec})
}
