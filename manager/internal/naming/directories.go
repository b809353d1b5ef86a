package naming

import (
	"iter"
	"slices"

	"github.com/volumekit/volumekit/internal/persistent"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A DirMap maps the directories of pods to volumes, by pod, because a pod has few. If
// several volumes are in one directory, the last one counts. A copy is an immutable version.
type DirMap struct {
	Pods persistent.Map[types.UID, []DirEntry] // the slices are immutable
}

// A DirEntry is a directory of a pod with its volume.
type DirEntry struct {
	Plugin, Name string
	Volume       v1.UniqueVolumeName
}

// with returns the entry of a volume in the directory.
func (d PodDir) with(volume v1.UniqueVolumeName) DirEntry { return DirEntry{d.Plugin, d.Name, volume} }

// Get returns the volume in a directory; empty: none.
func (m DirMap) Get(dir PodDir) v1.UniqueVolumeName {
	for _, e := range slices.Backward(m.Of(dir.Pod)) {
		if e == dir.with(e.Volume) {
			return e.Volume
		}
	}
	return ""
}

// Of returns the entries of a pod. The slice is shared.
func (m DirMap) Of(pod types.UID) []DirEntry { return m.Pods.Get(pod) }

// Add adds a volume to a directory.
func (m *DirMap) Add(dir PodDir, volume v1.UniqueVolumeName) {
	before := m.Of(dir.Pod)
	if e := dir.with(volume); !slices.Contains(before, e) {
		m.Pods = m.Pods.With(dir.Pod, append(slices.Clone(before), e))
	}
}

// Drop removes a volume from a directory.
func (m *DirMap) Drop(dir PodDir, volume v1.UniqueVolumeName) {
	before := m.Of(dir.Pod)
	at := slices.Index(before, dir.with(volume))
	switch {
	case at < 0:
	case len(before) == 1:
		m.Pods = m.Pods.Without(dir.Pod)
	default:
		m.Pods = m.Pods.With(dir.Pod, slices.Concat(before[:at], before[at+1:]))
	}
}

// All returns all directories, in no order.
func (m DirMap) All() iter.Seq2[PodDir, v1.UniqueVolumeName] {
	return func(yield func(PodDir, v1.UniqueVolumeName) bool) {
		for pod, entries := range m.Pods.All() {
			for _, e := range entries {
				if !yield(PodDir{pod, e.Plugin, e.Name}, e.Volume) {
					return
				}
			}
		}
	}
}
