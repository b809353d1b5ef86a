package manager

import (
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/manager/internal/populate"
	"github.com/volumekit/volumekit/manager/internal/reading"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// installPopulation makes a population the desired state of the world. It processes only the
// delta to the population before.
func (l *loop) installPopulation(want desired.Population, d desired.Delta) {
	l.mu.Lock()
	before := l.want
	l.want = want
	if renamed := l.adoptNamesOf(d.Pods); renamed || !before.Populated {
		l.markAllDirty()
		l.notifyAllWaiters()
	}
	l.markChangedDirty(before, d)
	l.remountChanged(before, d.Pods)
	l.retryForWriters(before, d.Volumes)
	l.markFailedStale(d.Pods)
	l.cancelUnwanted()
	l.dropStaleFailures(d.Pods)
	l.notifyWaiters(d.Pods...)
	l.unlock()
	for _, uid := range d.Pods {
		l.reportFailed(want.Demands.Get(uid), before.Demands.Get(uid))
	}
}

// reportFailed reports the new failures of a pod's unresolved volumes.
func (l *loop) reportFailed(now, before *desired.Demand) {
	for _, f := range now.FailedOrNone() {
		if old := before.FailureOf(f.Name); errors.Is(f.Err, reading.ErrPending) || errors.Is(f.Err, populate.ErrPodEnds) || old != nil && old.Error() == f.Err.Error() {
			continue
		}
		l.config.Logger.With(podLogAttrs(now.Pod.UID, now.Pod)...).Warn("volume cannot be set up", append(plugincall.LogAttrs(f.Err), "volume", brief.Name(f.Name))...)
		l.config.Events(failedMount(now.Pod, f.Name, f.Err))
	}
}

// markChangedDirty queues the volumes whose desired state has changed, and the volumes of
// pods that have become resolved or unresolved. The caller holds mu.
func (l *loop) markChangedDirty(before desired.Population, d desired.Delta) {
	for _, name := range d.Volumes {
		l.dirty[name] = true
	}
	for _, uid := range d.Pods {
		if before.Demands.Get(uid).KeepsExisting() == l.want.Demands.Get(uid).KeepsExisting() {
			continue
		}
		for _, e := range l.have.Dirs.Of(uid) {
			l.dirty[e.Volume] = true
		}
		for name := range l.have.LastPods.Get(uid).Keys() {
			l.dirty[name] = true
		}
	}
}

// markFailedStale marks pods with unresolved volumes as stale, so that the next population
// reads them against the new demand. The caller holds mu.
func (l *loop) markFailedStale(pods []types.UID) {
	for _, uid := range pods {
		if l.want.Demands.Get(uid).HasFailed() {
			l.have.StalePods = l.have.StalePods.With(uid, struct{}{})
		}
	}
}

// remountChanged requests a new set-up of remount volumes whose pod has changed. The caller
// holds mu.
func (l *loop) remountChanged(before desired.Population, pods []types.UID) {
	for _, uid := range pods {
		old, pod := before.Pod(uid), l.want.Pod(uid)
		if old != nil && pod != nil && old != pod && !reflect.DeepEqual(old, pod) {
			l.remountOf(pod)
		}
	}
}

// retryForWriters retries a failed device mount at once when the first writer needs the
// volume. The caller holds mu.
func (l *loop) retryForWriters(before desired.Population, volumes []v1.UniqueVolumeName) {
	for _, name := range volumes {
		op := operation.Operation{Verb: operation.MountDevice, Volume: name}
		if _, failed := l.schedule.Retry.Find(op); failed && l.want.Volumes.Get(name).HasWriter() && !before.Volumes.Get(name).HasWriter() {
			l.schedule.Retry = l.schedule.Retry.Without(op)
			l.dirty[name] = true
		}
	}
}

// adoptNames gives a reconstructed volume the unique name of the volume desired in the same
// directory, if both are the same storage or the reconstruction has no specification: the
// reconstructed specification may lack parts that the name depends on. It reports whether
// any was renamed. The caller holds mu.
func (l *loop) adoptNames() (renamed bool) {
	return l.adoptNamesOf(slices.Collect(l.have.Dirs.Pods.Keys()))
}

// adoptNamesOf is adoptNames for some pods.
func (l *loop) adoptNamesOf(pods []types.UID) (renamed bool) {
	var others []naming.PodDir
	for _, uid := range pods {
		for _, e := range l.have.Dirs.Of(uid) {
			dir := naming.PodDir{Pod: uid, Plugin: e.Plugin, Name: e.Name}
			if as := l.want.VolumeIn(dir); as != "" && as != e.Volume {
				others = append(others, dir)
			}
		}
	}
	for _, dir := range others {
		renamed = l.adoptName(dir) || renamed
	}
	return renamed
}

// adoptName is adoptNames for one directory. A volume with an in-flight operation is renamed
// after the operation.
func (l *loop) adoptName(dir naming.PodDir) (renamed bool) {
	name, as := l.have.Dirs.Get(dir), l.want.VolumeIn(dir)
	if name == "" || as == "" || as == name {
		return false
	}
	if l.schedule.IsBusy(name) || l.schedule.IsBusy(as) {
		l.adoptable[dir] = true
		return false
	}
	found, want := l.have.Volumes.Get(name), l.want.Volumes.Get(as)
	if found.Spec != nil && found.Name != want.Name {
		return false
	}
	l.have.Rename(naming.PodKey{Pod: dir.Pod, Name: dir.Name}, name, as, foundVolumeOf(want, naming.PodKey{Pod: dir.Pod, Name: dir.Name}))
	l.dirty[name], l.dirty[as] = true, true
	return true
}

// adoptDelayed calls adoptName again for the directories whose volumes had an in-flight
// operation; adoptName delays those that still have one. The caller holds mu.
func (l *loop) adoptDelayed() {
	for dir := range maps.Clone(l.adoptable) {
		delete(l.adoptable, dir)
		l.adoptName(dir)
	}
}

// foundVolumeOf returns the actual state of a desired volume that was found in a pod: its shared
// steps are uncertain.
func foundVolumeOf(want *desired.Volume, key naming.PodKey) *actual.Volume {
	v := &actual.Volume{Plugin: want.Plugin, Name: want.Name, Spec: want.Spec, Traits: want.Traits, DeviceMountPath: want.DeviceMountPath, LastPod: key}
	v.AssumeUncertain()
	return v
}

// cancelUnwanted cancels set-ups that no pod needs. The caller holds mu.
func (l *loop) cancelUnwanted() {
	for f := range l.schedule.All() {
		want := l.want.Volumes.Get(f.Volume)
		unwanted := want == nil || f.Verb == operation.SetUp && want.Pods.Get(f.Pod) == nil
		if _, kept := l.want.Kept.Find(f.User); operation.BringsUp(f.Verb) && unwanted && !kept {
			f.Cancelled = true
			f.Cancel(errPodGone)
		}
	}
}

// dropStaleFailures drops failures and backoffs of pods that are gone: a later pod begins
// without a pause. The caller holds mu.
func (l *loop) dropStaleFailures(pods []types.UID) {
	gone := func(name v1.UniqueVolumeName, pod naming.PodKey) bool {
		v := l.want.Volumes.Get(name)
		return v == nil || pod.Name != "" && v.Pods.Get(pod) == nil
	}
	for op := range l.schedule.Retry.Keys() {
		if operation.TakesDown(op.Verb) && !l.mayExist(failureKey{op.Volume, op.Pod}) { // the volume has another name
			l.schedule.Retry = l.schedule.Retry.Without(op)
		}
		if !operation.TakesDown(op.Verb) && gone(op.Volume, op.Pod) {
			l.schedule.Retry = l.schedule.Retry.Without(op)
		}
		if op.Verb == operation.Expand && l.isGrown(op.Volume) {
			l.schedule.Retry = l.schedule.Retry.Without(op)
			l.failures = l.failures.Without(failureKey{volume: op.Volume})
		}
	}
	for key := range l.failures.Keys() {
		if gone(key.volume, key.pod) && !l.mayExist(key) {
			l.failures = l.failures.Without(key)
		}
	}
	for key := range l.waitReasons {
		if gone(key.volume, key.pod) {
			delete(l.waitReasons, key)
		}
	}
	for key := range l.eventTexts {
		if gone(key.volume, key.pod) {
			delete(l.eventTexts, key)
		}
	}
	for _, uid := range pods {
		l.dropRevisions(uid)
	}
}

// dropRevisions drops the revisions of a pod that is gone. The caller holds mu.
func (l *loop) dropRevisions(uid types.UID) {
	if l.want.Pod(uid) == nil && len(l.have.Dirs.Of(uid)) == 0 { // else the pod may return
		l.schedule.Revisions = l.schedule.Revisions.Without(uid)
	}
}

// mayExist reports whether the volume, or its part for the pod, is or may be present. The
// caller holds mu.
func (l *loop) mayExist(key failureKey) bool {
	have := l.have.Volumes.Get(key.volume)
	return have != nil && (key.pod.Name == "" || have.StateOf(key.pod) != actual.Absent)
}

// isGrown reports whether the volume has its requested size.
func (s *snapshot) isGrown(name v1.UniqueVolumeName) bool {
	want, have := s.want.Volumes.Get(name), s.have.Volumes.Get(name)
	return want != nil && have != nil && !planning.NeedsExpansion(have, want)
}

// MarkRemountRequired requests another SetUp of the pod's volumes whose content follows an
// object of the API (volume.RemountVolumePlugin) after that object has changed. The manager
// detects changes of the pod itself.
func (m *Manager) MarkRemountRequired(pod types.UID) {
	m.mu.Lock()
	defer m.unlock()
	if pod := m.want.Pod(pod); pod != nil {
		m.remountOf(pod)
		m.wakeLoop()
	}
}

// remountOf requests another set-up of a pod's remount volumes. The caller holds mu.
func (m *Manager) remountOf(pod *v1.Pod) {
	for _, v := range pod.Spec.Volumes {
		if at, ok := m.want.PlaceNamed(naming.PodVolume{Pod: pod.UID, Name: v.Name}); ok {
			m.remountAt(at)
		}
	}
}

// remountAll requests another set-up of all remount volumes.
func (m *Manager) remountAll() {
	m.mu.Lock()
	defer m.unlock()
	for _, d := range m.want.Demands.All() {
		for _, w := range d.Volumes {
			m.remountAt(w.Place)
		}
	}
}

// remountAt gives a remount volume a new revision. The caller holds mu.
func (m *Manager) remountAt(at naming.Place) {
	if m.want.Volumes.Get(at.Volume).Traits.Remount {
		m.schedule.Revisions = m.schedule.Revisions.With(at.Key, m.schedule.Revisions.Get(at.Key)+1)
		m.dirty[at.Volume] = true
	}
}

// hasRemounts reports whether a remount volume is desired.
func (m *Manager) hasRemounts() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want.Remounts > 0
}
