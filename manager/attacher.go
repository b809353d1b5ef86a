package manager

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Attachment asks for a volume to be attached to a node, or detached from it.
type Attachment struct {
	Plugin volume.VolumePlugin
	Volume v1.UniqueVolumeName
	Name   string       // as the plugin calls it, see GetVolumeName
	Spec   *volume.Spec // nil to detach what was found after a restart and is not known better
	Node   types.NodeName
	Pod    *v1.Pod // the first that wants the volume; nil to detach
}

// An Attacher connects volumes to this node. It is called from several goroutines, one
// at a time for each volume.
type Attacher interface {
	// Attach returns when the volume is attached and its device is there, with the
	// device's path, which may be empty. It is idempotent. An error is of the kinds
	// of volume.KindOf.
	Attach(ctx context.Context, a Attachment) (devicePath string, err error)
	// Detach returns when the volume is detached, or whoever detaches it knows that
	// this node has let go of it: by then nothing of it is mounted, and it is not among
	// GetVolumesInUse any more, unless a pod has come to want it meanwhile. A volume
	// that is not attached is no error.
	Detach(ctx context.Context, a Attachment) error
}

// pluginAttacher lets the plugins attach.
type pluginAttacher struct{}

func (pluginAttacher) Attach(ctx context.Context, a Attachment) (string, error) {
	able, err := attachable(a.Plugin)
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
		return "", fmt.Errorf("%w: attached, and waiting for its device: %w", volume.ErrUncertain, err)
	}
	return path, nil
}

func (pluginAttacher) Detach(ctx context.Context, a Attachment) error {
	able, err := attachable(a.Plugin)
	if err != nil {
		return err
	}
	detacher, err := able.NewDetacher()
	if err != nil {
		return err
	}
	return detacher.Detach(ctx, a.Name, a.Node)
}

func attachable(plugin volume.VolumePlugin) (volume.AttachableVolumePlugin, error) {
	able, ok := volume.As[volume.AttachableVolumePlugin](plugin)
	if !ok {
		return nil, fmt.Errorf("%s attaches no volumes: %w", plugin.GetPluginName(), volume.ErrNotSupported)
	}
	return able, nil
}
