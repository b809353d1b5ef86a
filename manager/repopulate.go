package manager

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/manager/internal/populate"
	"github.com/volumekit/volumekit/manager/internal/reading"
	"github.com/volumekit/volumekit/manager/internal/retry"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A populationResult is the desired state computed from reads of the source and the plugins.
type populationResult struct {
	want desired.Population
	desired.Delta
	err      error               // the list of pods failed
	changes  reading.ChangeSet   // the changes that it covers
	podsRead map[types.UID]bool  // the pods that it covers, unless it covers all
	failed   map[types.UID]error // pods whose read failed
	isOld    bool                // in part older than the last change
}

// repopulate computes the desired state in the background: a source that does not respond
// must not delay known volumes.
func (l *loop) repopulate(ctx context.Context, now time.Time) {
	p := populate.Populator{Plugins: l.config.Plugins, Node: newNode(l.config), Before: l.want, ExistingIn: l.existingVolumes, RequeryPlugins: l.requeryPlugins, ControllerExpands: l.config.ControllerExpands}
	of, known := l.drainChanges(now)
	l.requeryPlugins, l.populating = false, true
	l.populateDelay.Until = time.Time{}
	generation := l.generation
	if of.Everything {
		l.background.startQuery(func() result { return l.populateAll(ctx, p, of, generation) })
	} else {
		l.background.startQuery(func() result { return l.populateChanged(ctx, p, of, known, generation) })
	}
}

// mustRepopulate reports whether a population is due.
func (l *loop) mustRepopulate(now time.Time) bool {
	return !l.populating && (l.populateDue || !l.changes.IsEmpty() || isDue(l.populateDelay.Until, now))
}

// drainChanges returns the objects to read: all, unless the source is incremental and all
// pods have been read once. known are the pods to populate again without a read: pods that
// depend on a changed object, pods whose existing volumes have changed, and pods with
// unresolved volumes to retry.
func (l *loop) drainChanges(now time.Time) (of reading.ChangeSet, known map[types.UID]bool) {
	of, l.changes = l.changes, reading.ChangeSet{}
	of.Merge(l.missed)
	l.missed = reading.ChangeSet{}
	l.mu.Lock()
	stalePods := l.have.StalePods
	l.have.StalePods = naming.UIDSet{}
	l.mu.Unlock()
	if l.populateDue || !l.isIncremental || !l.want.Populated {
		l.populateDue = false
		of.Everything = true
	}
	if of.Everything {
		return of, nil
	}
	known = map[types.UID]bool{}
	for ref := range of.Refs {
		for uid := range l.want.Users.Get(ref).Keys() {
			known[uid] = true
		}
	}
	for uid := range stalePods.Keys() {
		if l.want.Demands.Get(uid) != nil && !l.hasDesiredVolumes(uid) {
			known[uid] = true
		}
	}
	for at, f := range l.want.AllFailed() {
		if d := l.volumeBackoff[at]; !f.Pending && !f.AwaitsChange && !d.Until.After(now) {
			known[at.Pod] = true
		}
	}
	return of, known
}

// hasDesiredVolumes reports whether the existing volumes of a pod equal its demand, so that a
// new population would not change it.
func (l *loop) hasDesiredVolumes(uid types.UID) bool {
	d := l.want.Demands.Get(uid)
	if d.Pod.DeletionTimestamp != nil || d.HasFailed() {
		return false
	}
	for _, s := range l.existingVolumes(uid) {
		w, ok := d.VolumeIn(naming.PodDir{Pod: uid, Plugin: s.Plugin, Name: s.Dir})
		if !ok || s.Spec == nil || s.Name != w.Volume.Name || s.Spec.PersistentVolume != w.Pod.Spec.PersistentVolume {
			return false
		}
	}
	return true
}

// populateAll reads all pods.
func (l *loop) populateAll(ctx context.Context, p populate.Populator, of reading.ChangeSet, generation int) (a populationResult) {
	a.changes = of
	pods, err := l.reader.ListPods(ctx)
	if err != nil {
		a.err = err
		return a
	}
	all, old := l.reader.ReadClaims(ctx, pods, generation)
	l.reader.DropUnused(all.Has)
	p.Claims, a.isOld = all, old
	a.want, a.Delta = p.Populate(ctx, pods)
	return a
}

// populateChanged reads the changed pods, and the claims and volumes of these and of the
// known pods.
func (l *loop) populateChanged(ctx context.Context, p populate.Populator, of reading.ChangeSet, known map[types.UID]bool, generation int) (a populationResult) {
	pods, failed, oldPods := l.reader.ReadPods(ctx, slices.Sorted(maps.Keys(of.Pods)), generation)
	for uid := range known {
		if _, ok := pods[uid]; !ok {
			pods[uid] = p.Before.Pod(uid)
		}
	}
	existing := make([]*v1.Pod, 0, len(pods))
	for _, uid := range slices.Sorted(maps.Keys(pods)) {
		if pods[uid] != nil {
			existing = append(existing, pods[uid])
		}
	}
	all, old := l.reader.ReadClaims(ctx, existing, generation)
	l.reader.DropUnused(func(ref reading.Ref) bool {
		_, used := p.Before.Users.Find(ref)
		return used || all.Has(ref) || ref.Kind == reading.Pod && of.Pods[types.UID(ref.Name)]
	})
	p.Claims = all
	a = populationResult{changes: of, failed: failed, isOld: old || oldPods, podsRead: map[types.UID]bool{}}
	for uid := range pods {
		a.podsRead[uid] = true
	}
	a.want, a.Delta = p.Update(ctx, pods)
	return a
}

// applyPopulation installs the result of a population.
func (l *loop) applyPopulation(a populationResult, now time.Time) {
	l.populating = false
	if a.err != nil {
		l.config.Logger.Warn("reading the pods of the source failed", plugincall.LogAttrs(a.err)...)
		l.populateDelay = l.populateDelay.Increase(l.config.Backoff, l.config.MaxBackoff, now)
		l.missed.Everything = true
		return
	}
	if l.isResultStale(a.want, a.Pods) {
		l.requeueChanges(a)
		return
	}
	l.populateDelay = retry.Backoff{Until: retry.Earlier(l.scheduleRetries(a, now), l.requeueMissed(a.failed, now))}
	if a.isOld {
		l.requeueChanges(a)
	}
	l.installPopulation(a.want, a.Delta)
}

// requeueMissed returns when to read again the pods whose read failed.
func (l *loop) requeueMissed(failed map[types.UID]error, now time.Time) time.Time {
	if len(failed) == 0 {
		l.missedDelay = retry.Backoff{}
		return time.Time{}
	}
	for _, uid := range slices.Sorted(maps.Keys(failed)) {
		l.config.Logger.Warn("reading a pod of the source failed", append(plugincall.LogAttrs(failed[uid]), "pod", brief.Name(string(uid)))...)
		l.missed.AddPods(uid)
	}
	l.missedDelay = l.missedDelay.Increase(l.config.Backoff, l.config.MaxBackoff, now)
	return l.missedDelay.Until
}

// requeueChanges queues all objects that the result covers.
func (l *loop) requeueChanges(a populationResult) {
	l.changes.Merge(a.changes)
	l.changes.AddPods(slices.Collect(maps.Keys(a.podsRead))...)
}

// scheduleRetries returns when to retry unresolved volumes. Each has its own backoff, so that
// one broken volume delays no other. Pending reads, and errors that only a change of the
// source can end, are not retried by time.
func (l *loop) scheduleRetries(a populationResult, now time.Time) (at time.Time) {
	delays := map[naming.PodVolume]retry.Backoff{}
	for v, f := range a.want.AllFailed() {
		d := l.volumeBackoff[v]
		if f.Pending || f.AwaitsChange {
			delays[v] = d
			continue
		}
		if wasRead := a.changes.Everything || a.podsRead[v.Pod]; wasRead && !d.Until.After(now) {
			d = d.Increase(l.config.Backoff, l.config.MaxBackoff, now)
		}
		delays[v] = d
		at = retry.Earlier(at, d.Until)
	}
	l.volumeBackoff = delays
	return at
}
