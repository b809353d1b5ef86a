package manager

import (
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// A desiredWorld is the desired state of the world: the volumes that the pods of this
// node need.
type desiredWorld struct {
	// populated says that all pods are in it. Until then nothing is taken down: what
	// is missing may only not have been looked at yet.
	populated bool
	// keep are the pods of which not all is known. What they have stays.
	keep    map[types.UID]bool
	volumes map[v1.UniqueVolumeName]*desiredVolume
}

// A desiredVolume is wanted by at least one pod. It is not changed once it is in a
// population: later ones may have it, too.
type desiredVolume struct {
	plugin string
	name   string // as the plugin calls it, see GetVolumeName
	spec   *volume.Spec
	traits traits
	size   *resource.Quantity // of the storage; nil: not known, or nothing to grow
	pods   podMap[*desiredPod]
}

// A desiredPod is what one pod wants of a volume.
type desiredPod struct {
	pod   *v1.Pod
	outer string // the volume's name in the pod
	spec  *volume.Spec
	args  volume.MounterArgs
	block bool
}

// writer returns the first pod that may write to the volume, or else the first.
func (v *desiredVolume) writer() podKey {
	for key := range v.pods.all() {
		if v.isWriter(key) {
			return key
		}
	}
	if len(v.pods) == 0 {
		return podKey{}
	}
	return v.pods[0].key
}

// hasWriter is false for nil.
func (v *desiredVolume) hasWriter() bool { return v != nil && v.isWriter(v.writer()) }

func (v *desiredVolume) isWriter(key podKey) bool {
	pod := v.pods.get(key)
	return pod != nil && !pod.spec.IsReadOnly()
}

// podsOrNone returns the pods, of nil none.
func (v *desiredVolume) podsOrNone() podMap[*desiredPod] {
	if v == nil {
		return nil
	}
	return v.pods
}
