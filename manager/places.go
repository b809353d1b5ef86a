package manager

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A podVolume names a volume as its pod does.
type podVolume struct {
	pod  types.UID
	name string // in the pod
}

// A place is where a pod's volume is in the world.
type place struct {
	volume v1.UniqueVolumeName
	key    podKey
}

// A placeMap says where the volumes of pods went, by pod: a pod has few.
type placeMap map[types.UID][]placed

type placed struct {
	outer  string // the volume's name in the pod
	plugin string
	place
}

// named finds a volume by its name in the pod.
func (m placeMap) named(v podVolume) (place, bool) {
	for _, p := range m[v.pod] {
		if p.outer == v.name {
			return p.place, true
		}
	}
	return place{}, false
}

// in returns the volume that is wanted in a directory; no name: none is.
func (m placeMap) in(dir podDir) v1.UniqueVolumeName {
	for _, p := range m[dir.pod] {
		if p.key.name == dir.name && p.plugin == dir.plugin {
			return p.volume
		}
	}
	return ""
}

func (m placeMap) add(pod *v1.Pod, p placed) {
	if m[pod.UID] == nil {
		m[pod.UID] = slices.Grow([]placed(nil), len(pod.Spec.Volumes))
	}
	m[pod.UID] = append(m[pod.UID], p)
}
