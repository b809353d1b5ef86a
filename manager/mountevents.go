package manager

import (
	"path"
	"strings"

	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// recordTableChange records a change of the mount table. An event that affects no volume
// costs the same for any number of volumes, and does not wake the loop.
func (m *Manager) recordTableChange(change mount.TableChange) {
	m.mu.Lock()
	m.tableChanged = m.tableChanged || change.Everything
	for _, c := range change.Mounts {
		m.recordMountChange(c)
	}
	due := m.needsMountCheckLocked()
	m.mu.Unlock()
	if due {
		m.wakeLoop()
	}
}

// needsMountCheckLocked reports whether mounts have to be checked. The caller holds mu.
func (w *world) needsMountCheckLocked() bool {
	return w.tableChanged || w.checkFailed || len(w.placesToCheck) > 0
}

// recordMountChange records that a mount was attached, detached or moved. The caller holds
// mu.
func (w *world) recordMountChange(c mount.MountChange) {
	places, all := w.have.AffectedPlaces(c)
	w.tableChanged = w.tableChanged || all
	for _, at := range places {
		w.placesToCheck[at] = true
	}
	w.checkFailed = w.checkFailed || w.schedule.Retry.Len() > 0
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
func (l *loop) queueMountCheckAfter(f *operation.Flight, out execution.Outcome) {
	if f.CheckAfter {
		l.queueMountCheck(out.Volume)
		l.checkFailed = true
	}
	if f.TableEvents != l.tableEvents || f.Attached != 0 && f.Attached != out.Mount {
		l.placesToCheck[naming.Place{Volume: out.Volume, Key: out.Operation.Pod}] = true
		l.checkFailed = l.checkFailed || out.Err != nil
	}
}

// queueMountCheck queues a check of all mounts of a volume. The caller holds mu.
func (w *world) queueMountCheck(name v1.UniqueVolumeName) {
	w.placesToCheck[naming.Place{Volume: name}] = true
	if have := w.have.Volumes.Get(name); have != nil {
		for key := range have.Pods.All() {
			w.placesToCheck[naming.Place{Volume: name, Key: key}] = true
		}
	}
}
