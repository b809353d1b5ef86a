package manager

import (
	"path"
	"strings"

	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/mount"
	"k8s.io/apimachinery/pkg/types"
)

// recordTableChange records a change of the mount table. An event that affects no volume
// costs the same for any number of volumes, and does not wake the loop.
func (m *Manager) recordTableChange(change mount.TableChange) {
	var isQueued bool
	m.withWorld(func(w *world) {
		if change.Everything {
			w.mountQueue.AddAll()
		}
		for _, c := range change.Mounts {
			w.recordMountChange(c)
		}
		isQueued = !w.mountQueue.IsEmpty()
	})
	if isQueued {
		m.wakeLoop()
	}
}

// recordMountChange records that a mount was attached, detached or moved. The caller holds
// mu.
func (w *world) recordMountChange(c mount.MountChange) {
	places, all := w.have.AffectedPlaces(c)
	if all {
		w.mountQueue.AddAll()
	}
	for _, at := range places {
		w.mountQueue.AddPlace(at)
	}
	if w.schedule.Retry.Len() > 0 {
		w.mountQueue.AddFailed()
	}
	if f := w.flightAt(c.Target); f != nil {
		f.Attached = c.ID
		return
	}
	if w.schedule.Flights.Len() > 0 {
		w.tableEvents++
	}
}

// flightAt returns the in-flight operation that mounts a volume at a path, or nil. A mount of
// another process at the same path differs in its ID when the operation ends.
func (w *world) flightAt(target string) *operation.Flight {
	if target == "" {
		return nil
	}
	for _, name := range w.have.Places.Get(target) {
		if f := w.schedule.Find(operation.Operation{Verb: operation.MountDevice, Volume: name, Pod: naming.PodKey{}}); f != nil {
			return f
		}
	}
	for name := range strings.SplitSeq(target, "/") {
		for _, e := range w.have.Dirs.Of(types.UID(name)) {
			if e.Name != path.Base(target) {
				continue
			}
			if f := w.schedule.Find(operation.Operation{Verb: operation.SetUp, Volume: e.Volume, Pod: naming.PodKey{Pod: types.UID(name), Name: e.Name}}); f != nil {
				return f
			}
		}
	}
	return nil
}

// queueMountCheckAfter queues a check of the operation's mount if mount events may have
// affected it meanwhile. The caller holds mu.
func (w *world) queueMountCheckAfter(f *operation.Flight, out execution.Outcome) {
	if f.CheckAfter {
		w.mountQueue.AddVolume(out.Volume, w.have.Volumes.Get(out.Volume))
		w.mountQueue.AddFailed()
	}
	if f.TableEvents != w.tableEvents || f.Attached != 0 && f.Attached != out.Mount {
		w.mountQueue.AddPlace(naming.Place{Volume: out.Volume, Key: out.Operation.Pod})
		if out.Err != nil {
			w.mountQueue.AddFailed()
		}
	}
}
