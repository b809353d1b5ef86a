package manager

import (
	"github.com/volumekit/volumekit/internal/oneline"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of events, as Kubernetes has them.
const (
	FailedAttachVolume      = "FailedAttachVolume"
	SuccessfulAttachVolume  = "SuccessfulAttachVolume"
	FailedDetachVolume      = "FailedDetachVolume"
	FailedMount             = "FailedMount"
	SuccessfulMountVolume   = "SuccessfulMountVolume"
	FailedMapVolume         = "FailedMapVolume"
	SuccessfulMapVolume     = "SuccessfulMapVolume"
	FailedUnMount           = "FailedUnMount"
	SuccessfulUnMountVolume = "SuccessfulUnMountVolume"
	FailedUnmapDevice       = "FailedUnmapDevice"
	VolumeResizeFailed      = "VolumeResizeFailed"
	VolumeResizeSuccessful  = "FileSystemResizeSuccessful"
	VolumeVanished          = "VolumeVanished" // ours: somebody else has unmounted it
	VolumeReplaced          = "VolumeReplaced" // ours: somebody else has mounted something over it, or in its place
)

// An Event is something that happened to a volume, for people and for the objects'
// events.
type Event struct {
	Type   string // v1.EventTypeNormal or v1.EventTypeWarning
	Reason string // one of the constants
	// Message is one line, whatever a plugin or a server has said. It holds no secret.
	Message string
	Err     error // why, of a warning

	// Pod is the pod that it is about; nil if it is about none, or if only its UID is
	// known.
	Pod    *v1.Pod
	PodUID types.UID
	// Volume is the name in the pod, if it is about one and that is known.
	Volume string
	Unique v1.UniqueVolumeName
	Spec   *volume.Spec // nil: not known
	Plugin string
}

// inOneLine has events told with their messages in one line each: nobody that an error is of
// writes lines of its own into an agent's log.
func inOneLine(tell func(Event)) func(Event) {
	if tell == nil {
		return func(Event) {}
	}
	return func(e Event) {
		e.Message = oneline.Of(e.Message)
		tell(e)
	}
}
