package execution

import (
	"context"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Attachment is a request to attach or detach a volume, like manager.Attachment.
type Attachment struct {
	Plugin volume.VolumePlugin
	Volume v1.UniqueVolumeName
	Name   string
	Spec   *volume.Spec
	Node   types.NodeName
	Pod    *v1.Pod
}

// An Attacher attaches and detaches volumes, like manager.Attacher.
type Attacher interface {
	Attach(ctx context.Context, a Attachment) (devicePath string, err error)
	Detach(ctx context.Context, a Attachment) error
}

// attachmentOf returns the request of a job.
func (r *Runner) attachmentOf(j Job) Attachment {
	return Attachment{Plugin: j.Plugin, Volume: j.Volume, Name: j.Name, Spec: j.Spec, Node: r.Node, Pod: j.ForPod}
}
