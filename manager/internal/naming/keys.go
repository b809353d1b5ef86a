package naming

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A PodKey names a volume in a pod by the name of its directory.
type PodKey struct {
	Pod  types.UID
	Name string // of the directory: volume.Spec.Name, or the name of a read-only view
}

// Compare orders keys by pod, then by name.
func (k PodKey) Compare(l PodKey) int {
	return cmp.Or(strings.Compare(string(k.Pod), string(l.Pod)), strings.Compare(k.Name, l.Name))
}

// A PodVolume names a volume by its name in the pod's specification.
type PodVolume struct {
	Pod  types.UID
	Name string // in the specification
}

// A Place is a volume's part for one pod; an empty key is the part shared by all pods.
type Place struct {
	Volume v1.UniqueVolumeName
	Key    PodKey
}

// Compare orders places by volume, then by pod key.
func (p Place) Compare(q Place) int {
	return cmp.Or(strings.Compare(string(p.Volume), string(q.Volume)), p.Key.Compare(q.Key))
}

// A PodDir names the directory of a pod's volume.
type PodDir struct {
	Pod          types.UID
	Plugin, Name string
}

// A Storage names a volume by its plugin and the plugin's GetVolumeName.
type Storage struct{ Plugin, Name string }
