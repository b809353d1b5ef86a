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

// A repopulator computes the desired state again after changes of the source, and retries failed
// reads. The loop's goroutine uses it.
type repopulator struct {
	loop           loopAccess
	config         *Config
	labels         *nodeLabels
	reader         *reading.Reader
	pendingChanges *reading.PendingChanges // of an incremental source
	isIncremental  bool

	isRunning      bool              // a population is in flight
	generation     int               // of the source's content: grows with each change
	isFullDue      bool              // all pods have to be read
	changes        reading.ChangeSet // objects to read again
	missed         reading.ChangeSet // objects whose read failed, to read the next time
	missedDelay    retry.Backoff
	requeryPlugins bool          // query the plugins again, also without a change
	delay          retry.Backoff // after a failed list of pods
	volumeBackoff  map[naming.PodVolume]retry.Backoff
}

// newRepopulator returns a repopulator that has all pods to read.
func newRepopulator(loop loopAccess, config *Config, labels *nodeLabels, reader *reading.Reader, pending *reading.PendingChanges) *repopulator {
	_, isIncremental := config.Pods.(IncrementalPodSource)
	return &repopulator{loop: loop, config: config, labels: labels, reader: reader, pendingChanges: pending, isIncremental: isIncremental, isFullDue: true}
}

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

// startPopulation computes the desired state in the background, if a population is due and none is in flight:
// a source that does not respond must not delay known volumes.
func (r *repopulator) startPopulation(ctx context.Context, now time.Time) {
	r.collectChanges()
	if !r.isDue(now) {
		return
	}
	p := populate.Populator{
		Plugins: r.config.Plugins, Node: r.node(), Before: r.loop.published().want,
		ExistingIn:     func(pod types.UID) []populate.Existing { return r.loop.published().existingVolumes(pod) },
		RequeryPlugins: r.requeryPlugins, ControllerExpands: r.config.ControllerExpands,
	}
	of, known := r.drainChanges(now)
	r.requeryPlugins, r.isRunning = false, true
	r.delay.Until = time.Time{}
	generation := r.generation
	if of.Everything {
		r.loop.startQuery(func() result { return r.populateAll(ctx, p, of, generation) })
	} else {
		r.loop.startQuery(func() result { return r.populateChanged(ctx, p, of, known, generation) })
	}
}

// node returns this node with its present labels.
func (r *repopulator) node() *v1.Node {
	config := *r.config
	config.NodeLabels = r.labels.get()
	return newNode(config)
}

// collectChanges collects the reported changes and the objects whose read has ended late.
func (r *repopulator) collectChanges() {
	if changes := r.pendingChanges.Drain(); !changes.IsEmpty() {
		r.changes.Merge(changes)
		r.generation++
	}
	if r.labels.drain() {
		r.recordChange()
	}
	r.changes.AddRefs(r.reader.DrainLate()...)
}

// requestResync requests a population of all pods that queries the plugins again.
func (r *repopulator) requestResync() { r.isFullDue, r.requeryPlugins = true, true }

// recordChange records an unspecific change of the source.
func (r *repopulator) recordChange() {
	r.isFullDue = true
	r.generation++
}

// isDue reports whether a population is due and none is in flight.
func (r *repopulator) isDue(now time.Time) bool {
	return !r.isRunning && (r.isFullDue || !r.changes.IsEmpty() || isDue(r.delay.Until, now))
}

// drainChanges returns the objects to read: all, unless the source is incremental and all
// pods have been read once. known are the pods to populate again without a read: pods that
// depend on a changed object, pods whose existing volumes have changed, and pods with
// unresolved volumes to retry.
func (r *repopulator) drainChanges(now time.Time) (of reading.ChangeSet, known map[types.UID]bool) {
	of, r.changes = r.changes, reading.ChangeSet{}
	of.Merge(r.missed)
	r.missed = reading.ChangeSet{}
	var stalePods naming.UIDSet
	r.loop.update(func(w *world) { stalePods, w.have.StalePods = w.have.StalePods, naming.UIDSet{} })
	s := r.loop.published()
	if r.isFullDue || !r.isIncremental || !s.want.Populated {
		r.isFullDue = false
		of.Everything = true
	}
	if of.Everything {
		return of, nil
	}
	known = map[types.UID]bool{}
	for ref := range of.Refs {
		for uid := range s.want.Users.Get(ref).Keys() {
			known[uid] = true
		}
	}
	for uid := range stalePods.Keys() {
		if s.want.Demands.Get(uid) != nil && !s.hasDesiredVolumes(uid) {
			known[uid] = true
		}
	}
	for at, f := range s.want.AllFailed() {
		if d := r.volumeBackoff[at]; !f.Pending && !f.AwaitsChange && !d.Until.After(now) {
			known[at.Pod] = true
		}
	}
	return of, known
}

// hasDesiredVolumes reports whether the existing volumes of a pod equal its demand, so that a
// new population would not change it.
func (s *snapshot) hasDesiredVolumes(uid types.UID) bool {
	d := s.want.Demands.Get(uid)
	if d.Pod.DeletionTimestamp != nil || d.HasFailed() {
		return false
	}
	for _, have := range s.existingVolumes(uid) {
		w, ok := d.VolumeIn(naming.PodDir{Pod: uid, Plugin: have.Plugin, Name: have.Dir})
		if !ok || have.Spec == nil || have.Name != w.Volume.Name || have.Spec.PersistentVolume != w.Pod.Spec.PersistentVolume {
			return false
		}
	}
	return true
}

// populateAll reads all pods.
func (r *repopulator) populateAll(ctx context.Context, p populate.Populator, of reading.ChangeSet, generation int) (a populationResult) {
	a.changes = of
	pods, err := r.reader.ListPods(ctx)
	if err != nil {
		a.err = err
		return a
	}
	all, old := r.reader.ReadClaims(ctx, pods, generation)
	r.reader.DropUnused(all.Has)
	p.Claims, a.isOld = all, old
	a.want, a.Delta = p.Populate(ctx, pods)
	return a
}

// populateChanged reads the changed pods, and the claims and volumes of these and of the
// known pods.
func (r *repopulator) populateChanged(ctx context.Context, p populate.Populator, of reading.ChangeSet, known map[types.UID]bool, generation int) (a populationResult) {
	pods, failed, oldPods := r.reader.ReadPods(ctx, slices.Sorted(maps.Keys(of.Pods)), generation)
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
	all, old := r.reader.ReadClaims(ctx, existing, generation)
	r.reader.DropUnused(func(ref reading.Ref) bool {
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

// applyPopulation records the result of a population, and reports whether the loop has to install it: not
// after a failed list of pods, nor if the result is outdated.
func (r *repopulator) applyPopulation(a populationResult, now time.Time) (install bool) {
	r.isRunning = false
	if a.err != nil {
		r.config.Logger.Warn("reading the pods of the source failed", plugincall.LogAttrs(a.err)...)
		r.delay = r.delay.Increase(r.config.Backoff, r.config.MaxBackoff, now)
		r.missed.Everything = true
		return false
	}
	var isStale bool
	r.loop.withWorld(func(w *world) { isStale = w.isResultStale(a.want, a.Pods) })
	if isStale {
		r.requeueChanges(a)
		return false
	}
	r.delay = retry.Backoff{Until: retry.Earlier(r.scheduleRetries(a, now), r.requeueMissed(a.failed, now))}
	if a.isOld {
		r.requeueChanges(a)
	}
	return true
}

// requeueMissed returns when to read again the pods whose read failed.
func (r *repopulator) requeueMissed(failed map[types.UID]error, now time.Time) time.Time {
	if len(failed) == 0 {
		r.missedDelay = retry.Backoff{}
		return time.Time{}
	}
	for _, uid := range slices.Sorted(maps.Keys(failed)) {
		r.config.Logger.Warn("reading a pod of the source failed", append(plugincall.LogAttrs(failed[uid]), "pod", brief.Name(string(uid)))...)
		r.missed.AddPods(uid)
	}
	r.missedDelay = r.missedDelay.Increase(r.config.Backoff, r.config.MaxBackoff, now)
	return r.missedDelay.Until
}

// requeueChanges queues all objects that the result covers.
func (r *repopulator) requeueChanges(a populationResult) {
	r.changes.Merge(a.changes)
	r.changes.AddPods(slices.Collect(maps.Keys(a.podsRead))...)
}

// scheduleRetries returns when to retry unresolved volumes. Each has its own backoff, so that
// one broken volume delays no other. Pending reads, and errors that only a change of the
// source can end, are not retried by time.
func (r *repopulator) scheduleRetries(a populationResult, now time.Time) (at time.Time) {
	delays := map[naming.PodVolume]retry.Backoff{}
	for v, f := range a.want.AllFailed() {
		d := r.volumeBackoff[v]
		if f.Pending || f.AwaitsChange {
			delays[v] = d
			continue
		}
		if wasRead := a.changes.Everything || a.podsRead[v.Pod]; wasRead && !d.Until.After(now) {
			d = d.Increase(r.config.Backoff, r.config.MaxBackoff, now)
		}
		delays[v] = d
		at = retry.Earlier(at, d.Until)
	}
	r.volumeBackoff = delays
	return at
}
