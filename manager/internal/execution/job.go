package execution

import (
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// A Job is an operation with all its inputs, so that it reads no shared state while it runs.
type Job struct {
	operation.Operation
	Plugin     volume.VolumePlugin
	PluginName string
	Name       string       // as returned by GetVolumeName
	Spec       *volume.Spec // nil: not known, after a restart
	Traits     naming.Traits
	ForPod     *v1.Pod                 // of Attach, MountDevice and SetUp
	Args       volume.MounterArgs      // of SetUp, and the FsGroup of MountDevice
	Revision   int64                   // of SetUp
	OuterName  string                  // the volume's name in the pod, of SetUp
	Subpaths   func(outer string) bool // of TearDown: selects the volume's subpaths
	PodGone    bool                    // of TearDown: the source no longer has the pod
	LastPod    naming.PodKey           // the last pod for which the shared step was done

	DevicePath      string
	DeviceMountPath string
	VolumePath      string             // of Expand, in the pod of Grower
	Grower          *Grower            // of Expand; nil: no pod that writes has the volume
	Size            *resource.Quantity // of Expand
	OldSize         *resource.Quantity // last known size

	Before *actual.Volume // actual state before the operation
	Record *record.Record // written before the operation; nil: none
}

// A Grower is a pod that writes to a volume that grows.
type Grower struct {
	Pod   *v1.Pod
	Claim *v1.PersistentVolumeClaim // nil: not known
}

// UserUID returns the pod that needs the operation; empty for tear-downs.
func (j *Job) UserUID() types.UID {
	if j.ForPod == nil {
		return ""
	}
	return j.ForPod.UID
}

// sharedUser returns the pod and volume for which a shared step is done.
func (j *Job) sharedUser() naming.PodKey { return naming.PodKey{Pod: j.UserUID(), Name: j.Spec.Name()} }
