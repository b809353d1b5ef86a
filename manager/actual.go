package manager

import (
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// An actualWorld is the actual state of the world: what is attached, mounted and
// mapped on this node, as far as is known.
type actualWorld struct {
	volumes map[v1.UniqueVolumeName]*actualVolume
	// dirs says which volume is, or may be, in a pod's directory.
	dirs map[podDir]v1.UniqueVolumeName
	// storage says by which names storage is, or may be, in use.
	storage map[storage]map[v1.UniqueVolumeName]bool
}

// storage is a volume as its plugin calls it.
type storage struct{ plugin, name string }

func newActualWorld() actualWorld {
	return actualWorld{
		volumes: map[v1.UniqueVolumeName]*actualVolume{},
		dirs:    map[podDir]v1.UniqueVolumeName{},
		storage: map[storage]map[v1.UniqueVolumeName]bool{},
	}
}

// put replaces what is known of a volume.
func (w actualWorld) put(name v1.UniqueVolumeName, v *actualVolume) {
	w.drop(name)
	if v.isNothing() {
		return
	}
	w.volumes[name] = v
	at := storage{v.plugin, v.name}
	w.storage[at] = mapsWith(w.storage[at], name, true)
	for key, pod := range v.pods {
		if pod.state != absent {
			w.dirs[v.dir(key)] = name
		}
	}
}

func (w actualWorld) drop(name v1.UniqueVolumeName) {
	before := w.volumes[name]
	if before == nil {
		return
	}
	for key := range before.pods {
		if w.dirs[before.dir(key)] == name {
			delete(w.dirs, before.dir(key))
		}
	}
	at := storage{before.plugin, before.name}
	if delete(w.storage[at], name); len(w.storage[at]) == 0 {
		delete(w.storage, at)
	}
	delete(w.volumes, name)
}

func (v *actualVolume) dir(key podKey) podDir { return podDir{key.pod, v.plugin, key.name} }

// An actualVolume may be attached, mounted for all pods, and up in some.
type actualVolume struct {
	plugin string
	name   string       // as the plugin calls it, see GetVolumeName
	spec   *volume.Spec // nil: not known, after a restart
	traits traits

	attached   state
	devicePath string // as WaitForAttach said

	device          state // mounted, or mapped, once for all pods
	deviceMountPath string

	lastPod podKey // one that it was mapped for

	size *resource.Quantity // that its file system was last grown to
	pods map[podKey]*actualPod
}

// An actualPod is a pod's part of a volume.
type actualPod struct {
	state    state
	block    bool
	revision int64 // of the desiredPod that it was set up for
	path     string
	mounted  bool // a mount point is there, unless it has vanished
}

// inUse reports whether the volume is, or may be, up in a pod other than the given one.
func (v *actualVolume) inUse(except podKey) bool {
	for key, pod := range v.pods {
		if key != except && pod.state != absent {
			return true
		}
	}
	return false
}

// stateOf returns what is known of a pod's part of the volume.
func (v *actualVolume) stateOf(key podKey) state {
	if pod := v.pods[key]; pod != nil {
		return pod.state
	}
	return absent
}
