package manager

import (
	"slices"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// An actualWorld is the actual state of the world: what is attached, mounted and
// mapped on this node, as far as is known.
type actualWorld struct {
	volumes map[v1.UniqueVolumeName]*actualVolume
	// dirs says which volume is, or may be, in a pod's directory.
	dirs dirMap
	// storage says by which names storage is, or may be, in use.
	storage map[storage][]v1.UniqueVolumeName
}

// storage is a volume as its plugin calls it.
type storage struct{ plugin, name string }

func newActualWorld() actualWorld {
	return actualWorld{
		volumes: map[v1.UniqueVolumeName]*actualVolume{},
		dirs:    dirMap{},
		storage: map[storage][]v1.UniqueVolumeName{},
	}
}

// put replaces what is known of a volume.
func (w actualWorld) put(name v1.UniqueVolumeName, v *actualVolume) {
	before := w.volumes[name]
	if v.isNothing() {
		v = nil
	}
	if before != nil && (v == nil || before.storage() != v.storage()) {
		w.drop(name, before)
		before = nil
	}
	if v == nil {
		return
	}
	if before == nil {
		before = &actualVolume{}
		w.storage[v.storage()] = append(w.storage[v.storage()], name)
	}
	w.volumes[name] = v
	gone, come := difference(before.pods, v.pods)
	w.leaveDirs(name, v, gone)
	for key, pod := range come.all() {
		if pod.state != absent {
			w.dirs.add(v.dir(key), name)
		}
	}
}

func (w actualWorld) drop(name v1.UniqueVolumeName, v *actualVolume) {
	w.leaveDirs(name, v, v.pods)
	at := v.storage()
	w.storage[at] = slices.DeleteFunc(w.storage[at], func(other v1.UniqueVolumeName) bool { return other == name })
	if len(w.storage[at]) == 0 {
		delete(w.storage, at)
	}
	delete(w.volumes, name)
}

func (w actualWorld) leaveDirs(name v1.UniqueVolumeName, v *actualVolume, pods podMap[*actualPod]) {
	for key := range pods.all() {
		w.dirs.drop(v.dir(key), name)
	}
}

func (v *actualVolume) storage() storage { return storage{v.plugin, v.name} }

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
	deviceMount     uint64 // as mount of actualPod
	deviceReadOnly  bool   // it was mounted for pods that only read
	deviceStaysSo   bool   // and its plugin cannot change that while they have it

	lastPod podKey // one that it was mapped for

	size *resource.Quantity // that its file system was last grown to
	pods podMap[*actualPod]
}

// An actualPod is a pod's part of a volume.
type actualPod struct {
	state    state
	block    bool
	revision int64  // that it was set up for, see schedule
	outer    string // the volume's name in the pod; empty: not known, as after a restart
	path     string
	mounted  bool   // a mount point is there, unless it has vanished
	mount    uint64 // which mount it was then; 0: not known, as after a restart
}

// inUse reports whether the volume is, or may be, up in a pod other than the given one.
func (v *actualVolume) inUse(except podKey) bool {
	for key, pod := range v.pods.all() {
		if key != except && pod.state != absent {
			return true
		}
	}
	return false
}

// stateOf returns what is known of a pod's part of the volume.
func (v *actualVolume) stateOf(key podKey) state {
	if pod := v.pods.get(key); pod != nil {
		return pod.state
	}
	return absent
}
