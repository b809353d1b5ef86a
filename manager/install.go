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
	var before desired.Population
	l.update(func(w *world) {
		before = w.want
		w.replaceDesired(want, d)
	})
	for _, uid := range d.Pods {
		l.reportFailed(want.Demands.Get(uid), before.Demands.Get(uid))
	}
}

// replaceDesired replaces the desired state, and drops or repeats the work that depended on the
// state before. The caller holds mu.
func (w *world) replaceDesired(want desired.Population, d desired.Delta) {
	before := w.want
	w.want = want
	if renamed := w.adoptNamesOf(d.Pods); renamed || !before.Populated {
		w.markAllDirty()
		w.notifyAllWaiters()
	}
	w.markChangedDirty(before, d)
	w.remountChanged(before, d.Pods)
	w.retryForWriters(before, d.Volumes)
	w.markFailedStale(d.Pods)
	w.cancelUnwanted()
	w.dropStaleFailures(d.Pods)
	w.notifyWaiters(d.Pods...)
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
func (w *world) markChangedDirty(before desired.Population, d desired.Delta) {
	for _, name := range d.Volumes {
		w.dirty[name] = true
	}
	for _, uid := range d.Pods {
		if before.Demands.Get(uid).KeepsExisting() == w.want.Demands.Get(uid).KeepsExisting() {
			continue
		}
		for _, e := range w.have.Dirs.Of(uid) {
			w.dirty[e.Volume] = true
		}
		for name := range w.have.LastPods.Get(uid).Keys() {
			w.dirty[name] = true
		}
	}
}

// markFailedStale marks pods with unresolved volumes as stale, so that the next population
// reads them against the new demand. The caller holds mu.
func (w *world) markFailedStale(pods []types.UID) {
	for _, uid := range pods {
		if w.want.Demands.Get(uid).HasFailed() {
			w.have.StalePods = w.have.StalePods.With(uid, struct{}{})
		}
	}
}

// remountChanged requests a new set-up of remount volumes whose pod has changed. The caller
// holds mu.
func (w *world) remountChanged(before desired.Population, pods []types.UID) {
	for _, uid := range pods {
		old, pod := before.Pod(uid), w.want.Pod(uid)
		if old != nil && pod != nil && old != pod && !reflect.DeepEqual(old, pod) {
			w.remountOf(pod)
		}
	}
}

// retryForWriters retries a failed device mount at once when the first writer needs the
// volume. The caller holds mu.
func (w *world) retryForWriters(before desired.Population, volumes []v1.UniqueVolumeName) {
	for _, name := range volumes {
		op := operation.Operation{Verb: operation.MountDevice, Volume: name}
		if _, failed := w.schedule.Retry.Find(op); failed && w.want.Volumes.Get(name).HasWriter() && !before.Volumes.Get(name).HasWriter() {
			w.schedule.Retry = w.schedule.Retry.Without(op)
			w.dirty[name] = true
		}
	}
}

// adoptNames gives a reconstructed volume the unique name of the volume desired in the same
// directory, if both are the same storage or the reconstruction has no specification: the
// reconstructed specification may lack parts that the name depends on. It reports whether
// any was renamed. The caller holds mu.
func (w *world) adoptNames() (renamed bool) {
	return w.adoptNamesOf(slices.Collect(w.have.Dirs.Pods.Keys()))
}

// adoptNamesOf is adoptNames for some pods.
func (w *world) adoptNamesOf(pods []types.UID) (renamed bool) {
	var others []naming.PodDir
	for _, uid := range pods {
		for _, e := range w.have.Dirs.Of(uid) {
			dir := naming.PodDir{Pod: uid, Plugin: e.Plugin, Name: e.Name}
			if as := w.want.VolumeIn(dir); as != "" && as != e.Volume {
				others = append(others, dir)
			}
		}
	}
	for _, dir := range others {
		renamed = w.adoptName(dir) || renamed
	}
	return renamed
}

// adoptName is adoptNames for one directory. A volume with an in-flight operation is renamed
// after the operation.
func (w *world) adoptName(dir naming.PodDir) (renamed bool) {
	name, as := w.have.Dirs.Get(dir), w.want.VolumeIn(dir)
	if name == "" || as == "" || as == name {
		return false
	}
	if w.schedule.IsBusy(name) || w.schedule.IsBusy(as) {
		w.adoptable[dir] = true
		return false
	}
	found, want := w.have.Volumes.Get(name), w.want.Volumes.Get(as)
	if found.Spec != nil && found.Name != want.Name {
		return false
	}
	w.have.Rename(naming.PodKey{Pod: dir.Pod, Name: dir.Name}, name, as, foundVolumeOf(want, naming.PodKey{Pod: dir.Pod, Name: dir.Name}))
	w.dirty[name], w.dirty[as] = true, true
	return true
}

// adoptDelayed calls adoptName again for the directories whose volumes had an in-flight
// operation; adoptName delays those that still have one. The caller holds mu.
func (w *world) adoptDelayed() {
	for dir := range maps.Clone(w.adoptable) {
		delete(w.adoptable, dir)
		w.adoptName(dir)
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
func (w *world) cancelUnwanted() {
	for f := range w.schedule.All() {
		want := w.want.Volumes.Get(f.Volume)
		unwanted := want == nil || f.Verb == operation.SetUp && want.Pods.Get(f.Pod) == nil
		if _, kept := w.want.Kept.Find(f.User); operation.BringsUp(f.Verb) && unwanted && !kept {
			f.Cancelled = true
			f.Cancel(errPodGone)
		}
	}
}

// dropRevisions drops the revisions of a pod that is gone. The caller holds mu.
func (w *world) dropRevisions(uid types.UID) {
	if w.want.Pod(uid) == nil && len(w.have.Dirs.Of(uid)) == 0 { // else the pod may return
		w.schedule.Revisions = w.schedule.Revisions.Without(uid)
	}
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
	m.update(func(w *world) {
		if pod := w.want.Pod(pod); pod != nil {
			w.remountOf(pod)
			m.wakeLoop()
		}
	})
}

// remountOf requests another set-up of a pod's remount volumes. The caller holds mu.
func (w *world) remountOf(pod *v1.Pod) {
	for _, v := range pod.Spec.Volumes {
		if at, ok := w.want.PlaceNamed(naming.PodVolume{Pod: pod.UID, Name: v.Name}); ok {
			w.remountAt(at)
		}
	}
}

// remountAll requests another set-up of all remount volumes. The caller holds mu.
func (w *world) remountAll() {
	for _, d := range w.want.Demands.All() {
		for _, v := range d.Volumes {
			w.remountAt(v.Place)
		}
	}
}

// remountAt requests another set-up of a remount volume. The caller holds mu.
func (w *world) remountAt(at naming.Place) {
	if w.want.Volumes.Get(at.Volume).Traits.Remount {
		w.requestSetUp(at)
	}
}

// requestSetUp requests another set-up of a volume in a pod, by a new revision, which it returns. The
// caller holds mu.
func (w *world) requestSetUp(at naming.Place) int64 {
	revision := w.schedule.Revisions.Get(at.Key) + 1
	w.schedule.Revisions = w.schedule.Revisions.With(at.Key, revision)
	w.dirty[at.Volume] = true
	return revision
}

// A renewal is a requested set-up of a renewable volume.
type renewal struct {
	at       naming.Place
	name     string // of the volume in the pod
	revision int64
}

// renew requests another set-up of the pod's renewable volumes, and forgets that an earlier one failed.
func (m *Manager) renew(pod types.UID) (requested []renewal) {
	m.update(func(w *world) {
		for _, v := range w.want.Demands.Get(pod).VolumesOrNone() {
			at := v.Place
			if !w.want.Volumes.Get(at.Volume).Traits.Renewable {
				continue
			}
			requested = append(requested, renewal{at, v.Pod.OuterName, w.requestSetUp(at)})
			w.failures = w.failures.Without(failureKey{at.Volume, at.Key})
			w.schedule.Retry = w.schedule.Retry.Without(operation.Operation{Verb: operation.SetUp, Volume: at.Volume, Pod: at.Key})
		}
		m.wakeLoop()
	})
	return requested
}

// hasRemounts reports whether a remount volume is desired.
func (s *snapshot) hasRemounts() bool { return s.want.Remounts > 0 }
