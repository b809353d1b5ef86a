package manager

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A podDir names the directory of a pod's volume.
type podDir struct {
	pod          types.UID
	plugin, name string
}

// A dirMap says which volumes are in the directories of pods, by pod: a pod has few. Of
// several in one directory the last counts.
type dirMap map[types.UID][]dirEntry

type dirEntry struct {
	plugin, name string
	volume       v1.UniqueVolumeName
}

func (d podDir) with(volume v1.UniqueVolumeName) dirEntry { return dirEntry{d.plugin, d.name, volume} }

// get returns no name for a directory in which there is nothing.
func (m dirMap) get(dir podDir) v1.UniqueVolumeName {
	for _, e := range slices.Backward(m[dir.pod]) {
		if e == dir.with(e.volume) {
			return e.volume
		}
	}
	return ""
}

func (m dirMap) add(dir podDir, volume v1.UniqueVolumeName) {
	if e := dir.with(volume); !slices.Contains(m[dir.pod], e) {
		m[dir.pod] = append(m[dir.pod], e)
	}
}

func (m dirMap) drop(dir podDir, volume v1.UniqueVolumeName) {
	at := slices.Index(m[dir.pod], dir.with(volume))
	if at < 0 {
		return
	}
	if m[dir.pod] = slices.Delete(m[dir.pod], at, at+1); len(m[dir.pod]) == 0 {
		delete(m, dir.pod)
	}
}

func (m dirMap) all() iter.Seq2[podDir, v1.UniqueVolumeName] {
	return func(yield func(podDir, v1.UniqueVolumeName) bool) {
		for pod, entries := range m {
			for _, e := range entries {
				if !yield(podDir{pod, e.plugin, e.name}, e.volume) {
					return
				}
			}
		}
	}
}
