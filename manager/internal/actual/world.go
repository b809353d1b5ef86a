package actual

import (
	"cmp"

	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/naming"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A World is the actual state of the world: the volumes that are, or may be,
// attached, mounted and mapped on this node.
//
// A copy is an immutable version.
type World struct {
	Volumes persistent.Map[v1.UniqueVolumeName, *Volume]
	// Dirs maps a pod's directory to the volume that is, or may be, in it.
	Dirs naming.DirMap
	// Storage maps storage to the unique names under which it is, or may be, in use.
	Storage naming.StorageMap
	// Places maps a device mount path to the volumes that are, or may be, mounted there.
	Places naming.NameMap[string]
	// LastPods maps a pod to the volumes that were attached or mounted for it.
	LastPods persistent.Map[types.UID, naming.NameSet]
	// StalePods are pods whose set of existing volumes has changed since the last population.
	StalePods naming.UIDSet
	Mounts    mountIndex
}

// Put replaces the actual state of a volume.
func (w *World) Put(name v1.UniqueVolumeName, v *Volume) {
	before := w.Volumes.Get(name)
	if v.IsAbsent() {
		v = nil
	}
	if before == nil || v == nil || before.Spec != v.Spec || before.Storage() != v.Storage() {
		for _, changed := range []*Volume{before, v} {
			if changed != nil {
				w.markPodsStale(changed.Pods, nil)
			}
		}
	}
	w.indexLastPod(name, before, v)
	if before != nil && (v == nil || before.Storage() != v.Storage() || before.OccupiedPath() != v.OccupiedPath()) {
		w.drop(name, before)
		before = nil
	}
	if v == nil {
		return
	}
	if before == nil {
		before = &Volume{}
		w.Storage = naming.WithName(w.Storage, v.Storage(), name)
		if at := v.OccupiedPath(); at != "" {
			w.Places = naming.WithName(w.Places, at, name)
		}
	}
	w.Volumes = w.Volumes.With(name, v)
	w.indexMounts(before, v, naming.Place{Volume: name})
	removed, added := naming.Difference(before.Pods, v.Pods)
	w.markPodsStale(removed, added)
	w.markPodsStale(added, removed)
	for key := range removed.All() {
		w.indexMounts(before, v, naming.Place{Volume: name, Key: key})
	}
	for key := range added.All() {
		if before.Pods.Get(key) == nil {
			w.indexMounts(before, v, naming.Place{Volume: name, Key: key})
		}
	}
	w.dropDirs(name, v, removed)
	for key, pod := range added.All() {
		if pod.State != Absent {
			w.Dirs.Add(v.DirOf(key), name)
		}
	}
}

// markPodsStale adds to StalePods each pod in which the volume is, or may be, up in pods but
// not in others.
func (w *World) markPodsStale(pods, others naming.PodMap[*Pod]) {
	for key, pod := range pods.All() {
		if other := others.Get(key); pod.State != Absent && (other == nil || other.State == Absent) {
			w.StalePods = w.StalePods.With(key.Pod, struct{}{})
		}
	}
}

// indexLastPod moves the volume in LastPods from its last pod before to its last pod now.
func (w *World) indexLastPod(name v1.UniqueVolumeName, before, now *Volume) {
	from, to := before.lastUser(), now.lastUser()
	if from == to {
		return
	}
	if names := w.LastPods.Get(from).Without(name); names.Len() > 0 {
		w.LastPods = w.LastPods.With(from, names)
	} else {
		w.LastPods = w.LastPods.Without(from)
	}
	if to != "" {
		w.LastPods = w.LastPods.With(to, w.LastPods.Get(to).With(name, struct{}{}))
	}
}

// drop removes a volume from all indexes.
func (w *World) drop(name v1.UniqueVolumeName, v *Volume) {
	w.indexMounts(v, nil, naming.Place{Volume: name})
	for key := range v.Pods.All() {
		w.indexMounts(v, nil, naming.Place{Volume: name, Key: key})
	}
	w.dropDirs(name, v, v.Pods)
	w.Storage = naming.WithoutName(w.Storage, v.Storage(), name)
	w.Places = naming.WithoutName(w.Places, v.OccupiedPath(), name)
	w.Volumes = w.Volumes.Without(name)
}

// dropDirs removes the directories of pods of a volume.
func (w *World) dropDirs(name v1.UniqueVolumeName, v *Volume, pods naming.PodMap[*Pod]) {
	for key := range pods.All() {
		w.Dirs.Drop(v.DirOf(key), name)
	}
}

// Rename moves a pod's part of a volume to another unique name. If no volume has that name,
// the part is added to fresh.
func (w *World) Rename(key naming.PodKey, from, to v1.UniqueVolumeName, fresh *Volume) {
	old := *w.Volumes.Get(from)
	pod := old.Pods.Get(key)
	old.Pods = old.Pods.Without(key)
	w.Put(from, &old)
	v := w.Volumes.Get(to)
	if v == nil {
		v = fresh
	}
	moved := *v
	moved.Pods = v.Pods.With(key, pod.WithState(Uncertain))
	w.Put(to, &moved)
}

// Merge adds a reconstructed volume, or its pods to the known volume.
func (w *World) Merge(name v1.UniqueVolumeName, found *Volume) {
	known := w.Volumes.Get(name)
	if known == nil {
		w.Put(name, found)
		return
	}
	merged := *known
	for key, pod := range found.Pods.All() {
		merged.Pods = merged.Pods.With(key, pod)
	}
	merged.DeviceMountPath = cmp.Or(merged.DeviceMountPath, found.DeviceMountPath)
	merged.DevicePath = cmp.Or(merged.DevicePath, found.DevicePath)
	merged.StagePath = cmp.Or(merged.StagePath, found.StagePath)
	if merged.Traits.Attachable && merged.Attached == Absent {
		merged.Attached = Uncertain
	}
	if merged.Traits.OnDevice() && merged.Device == Absent {
		merged.Device = Uncertain
	}
	w.Put(name, &merged)
}
