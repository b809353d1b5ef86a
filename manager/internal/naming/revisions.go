package naming

import (
	"maps"

	"github.com/volumekit/volumekit/internal/persistent"
	"k8s.io/apimachinery/pkg/types"
)

// A RevisionMap maps each volume of a pod to a number, by pod, because a pod has few. A copy
// is immutable.
type RevisionMap struct {
	byPod persistent.Map[types.UID, map[string]int64] // by names of directories; immutable
}

// Get returns the revision of a volume; 0 without one.
func (m RevisionMap) Get(key PodKey) int64 { return m.byPod.Get(key.Pod)[key.Name] }

// With returns the map with another revision of a volume.
func (m RevisionMap) With(key PodKey, revision int64) RevisionMap {
	names := maps.Clone(m.byPod.Get(key.Pod))
	if names == nil {
		names = map[string]int64{}
	}
	names[key.Name] = revision
	return RevisionMap{m.byPod.With(key.Pod, names)}
}

// Without returns the map without a pod.
func (m RevisionMap) Without(pod types.UID) RevisionMap { return RevisionMap{m.byPod.Without(pod)} }
