package manager

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/record"
	v1 "k8s.io/api/core/v1"
)

// GetVolumesInUse returns, sorted, the attachable volumes that a pod needs, that are or may be
// mounted, or that the manager could mount without another Attach. A node reports them as in use,
// so that no controller detaches them. A [Leftover] is included if a record names its volume.
// Before the restore is complete only desired volumes are included: see CompleteVolumesInUse.
//
// A volume that no pod needs is torn down in its pods and unmounted. It is no longer in use once
// its detach has begun.
func (m *Manager) GetVolumesInUse() []v1.UniqueVolumeName { return m.published().volumesInUse() }

// CompleteVolumesInUse returns the result of GetVolumesInUse, and true once the result includes
// the volumes of an earlier run and the volumes of all pods. With false a program does not report
// the list, because a volume in use may be missing. A further Run begins with false again.
func (m *Manager) CompleteVolumesInUse() (names []v1.UniqueVolumeName, complete bool) {
	s := m.published()
	return s.volumesInUse(), s.isComplete()
}

// SubscribeVolumesInUse makes the manager call changed after the result of CompleteVolumesInUse
// has become complete, and after each change of the complete result. Changes of one step of the
// manager cause one call; without a change there is no call. changed must not block: it wakes a
// goroutine that calls CompleteVolumesInUse. A call may come shortly after unsubscribe.
func (m *Manager) SubscribeVolumesInUse(changed func()) (unsubscribe func()) {
	return m.inUseSubscribers.add(changed)
}

// MarkVolumesAsReportedInUse replaces the list of volumes that the cluster has recorded as in
// use. With Config.ReportFirst other volumes are not attached.
func (m *Manager) MarkVolumesAsReportedInUse(names []v1.UniqueVolumeName) {
	m.mu.Lock()
	defer m.unlock()
	before := m.inUse
	m.inUse = map[v1.UniqueVolumeName]bool{}
	for _, name := range names {
		m.inUse[name] = true
	}
	if !m.config.ReportFirst {
		return
	}
	m.schedule.Reported = m.inUse
	for name := range m.want.Volumes.Keys() {
		if before[name] != m.inUse[name] {
			m.dirty[name] = true
		}
	}
	m.wakeLoop()
}

func (s *snapshot) isComplete() bool { return s.restored && s.want.Populated }

func (s *snapshot) volumesInUse() []v1.UniqueVolumeName {
	inUse := map[v1.UniqueVolumeName]bool{}
	for name, v := range s.want.Volumes.All() {
		if v.Traits.Attachable {
			inUse[name] = true
		}
	}
	for name, v := range s.have.Volumes.All() {
		if v.Traits.Attachable && !s.isReleased(name) {
			inUse[name] = true
		}
	}
	for _, rec := range s.brokenRecords.All() {
		if rec.Attachable {
			inUse[rec.Volume] = true
		}
	}
	return slices.Sorted(maps.Keys(inUse))
}

// isInUse reports whether volumesInUse has the volume.
func (s *snapshot) isInUse(name v1.UniqueVolumeName) bool {
	want, have := s.want.Volumes.Get(name), s.have.Volumes.Get(name)
	return want != nil && want.Traits.Attachable || have != nil && have.Traits.Attachable && !s.isReleased(name) ||
		s.brokenRecords.Len() > 0 && s.brokenRecords.Get(record.FileName(name)).Attachable
}

// isReleased reports whether only the detach of the volume remains, and no step can use the
// attachment before a new Attach.
func (s *snapshot) isReleased(name v1.UniqueVolumeName) bool {
	for _, f := range s.schedule.Of(name) {
		if operation.BringsUp(f.Verb) {
			return false
		}
	}
	p := planning.PlannerOf(name, s.want.World, s.have, s.schedule, time.Time{})
	return p.Have.Device == actual.Absent && p.Have.Attached != actual.Present && p.MayRelease()
}

// An inUseTracker follows the volumes in use at a cost that depends on the changed volumes alone.
type inUseTracker struct {
	names     map[v1.UniqueVolumeName]bool
	broken    persistent.Map[string, record.Broken] // as of the last call of drainInUseChange
	isChanged bool
	announced bool // a complete list has been announced
}

// trackInUse records whether a volume is in use. replan calls it: each change of the inputs of
// isInUse queues the volume for planning. The caller holds mu.
func (w *world) trackInUse(name v1.UniqueVolumeName) {
	if is := w.isInUse(name); is != w.tracker.names[name] {
		w.tracker.isChanged = true
		if is {
			w.tracker.names[name] = true
		} else {
			delete(w.tracker.names, name)
		}
	}
}

// drainInUseChange reports whether subscribers have to be called, and forgets the change. The
// caller holds mu.
func (w *world) drainInUseChange() bool {
	t := &w.tracker
	if t.broken != w.brokenRecords {
		for _, records := range []persistent.Map[string, record.Broken]{t.broken, w.brokenRecords} {
			for _, rec := range records.All() {
				w.trackInUse(rec.Volume)
			}
		}
		t.broken = w.brokenRecords
	}
	if !w.isComplete() || t.announced && !t.isChanged {
		return false
	}
	t.announced, t.isChanged = true, false
	return true
}

// A callbackSet holds the functions of subscribers. The zero value is empty.
type callbackSet struct {
	mu   sync.Mutex
	all  map[int]func()
	next int
}

// add adds a function. remove may be called several times.
func (s *callbackSet) add(f func()) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[int]func(){}
	}
	id := s.next
	s.next++
	s.all[id] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, id)
	}
}

// call calls the functions without a lock, in the order of their addition.
func (s *callbackSet) call() {
	s.mu.Lock()
	var all []func()
	for _, id := range slices.Sorted(maps.Keys(s.all)) {
		all = append(all, s.all[id])
	}
	s.mu.Unlock()
	for _, f := range all {
		f()
	}
}
