package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/manager/internal/reconstruction"
	"github.com/volumekit/volumekit/manager/internal/record"
	"k8s.io/apimachinery/pkg/types"
)

// restore reconstructs the actual state from the records and, by the plugins, from the
// directories of pods. All of it is uncertain: desired volumes are set up again, which changes
// nothing if they are in order, and others are taken down.
func (l *loop) restore(ctx context.Context) error {
	var have actual.World
	recs, unread := l.readRecords()
	for _, rec := range recs {
		have.Put(rec.Volume, rec.ActualVolume())
	}
	leftovers := l.leftoversOfRecords(unread)
	l.disk.RemoveEmptyDirs()
	layout, err := l.disk.FindVolumes()
	if err != nil {
		return fmt.Errorf("manager: looking for the volumes of an earlier run: %w", err)
	}
	for _, f := range layout.Volumes {
		l.countMetric(ReconstructTotal, f)
	}
	found := slices.DeleteFunc(layout.Volumes, func(f poddirs.Volume) bool { return have.Dirs.Get(f.Dir()) != "" }) // known from a record
	leftovers = append(leftovers, l.reconstructInto(ctx, &have, found)...)
	leftovers = append(leftovers, strayLeftovers(layout, func(pod types.UID) bool { return have.Dirs.Of(pod) == nil })...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.logLeftovers(leftovers)
	l.mu.Lock()
	defer l.unlock()
	l.have, l.restored, l.brokenRecords = have, true, persistent.Of(unread)
	l.setLeftovers(leftovers)
	l.markAllDirty()
	l.notifyAllWaiters()
	return nil
}

func (l *loop) logLeftovers(leftovers []Leftover) {
	for _, left := range leftovers {
		l.config.Logger.Warn("unrecognized volume left in place", "path", left.Path, "err", left.Err)
	}
}

// rescan reads the leftovers again, and new directories, in the background.
func (l *loop) rescan(ctx context.Context) {
	l.rescanDue, l.rescanning = false, true
	l.background.startQuery(func() result {
		var f scanResult
		layout, err := l.disk.FindVolumes()
		if err != nil {
			l.config.Logger.Warn("rescan of the pod directories failed", "err", err)
			return scanResult{}
		}
		if l.hasBrokenRecords() {
			f.records, f.unread = l.readRecords()
		}
		f.layout = layout
		f.volumes = l.reconstructor.All(ctx, slices.DeleteFunc(layout.Volumes, l.published().isKnown), reconstruction.QueryTimeout+time.Second)
		return f
	})
}

// A scanResult is the result of a rescan.
type scanResult struct {
	volumes []reconstruction.Volume // nil: incomplete
	layout  poddirs.Layout
	records []record.Record
	unread  map[string]record.Broken // as brokenRecords
}

// applyScan records the result of a rescan, except for volumes that are known by now.
func (l *loop) applyScan(ctx context.Context, f scanResult) {
	l.rescanning = false
	if f.volumes == nil || ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.unlock()
	l.mergeRecords(f)
	leftovers := append(l.leftoversOfRecords(maps.Collect(l.brokenRecords.All())), strayLeftovers(f.layout, l.isUnknownPod)...)
	for _, r := range f.volumes {
		leftovers = append(leftovers, l.mergeReconstructed(r)...)
	}
	l.setLeftovers(leftovers)
	l.adoptNames()
	l.markAllDirty()
	l.notifyAllWaiters()
}

var errBusy = errors.New("its volume is being worked on")

// leftoverOf returns the leftover of a failed reconstruction.
func leftoverOf(r reconstruction.Volume) Leftover {
	f := r.Found
	return Leftover{Path: f.Path, Pod: f.Pod, Plugin: f.Dir().Plugin, Err: r.Err, Volume: r.Unique, Scope: r.Scope}
}

// reconstructInto adds the reconstructed volumes to have, and returns the leftovers.
func (l *loop) reconstructInto(ctx context.Context, have *actual.World, found []poddirs.Volume) (leftovers []Leftover) {
	for _, r := range l.reconstructor.All(ctx, found, reconstruction.StartPatience) {
		if r.Err != nil {
			leftovers = append(leftovers, leftoverOf(r))
			l.countMetric(ReconstructErrors, r.Found)
		} else if r.Actual != nil { // or ctx has ended
			have.Merge(r.Unique, r.Actual)
		}
	}
	return leftovers
}

func (l *loop) countMetric(metric string, f poddirs.Volume) {
	l.config.Metrics.Add(metric, 1, Label{"volume_plugin", f.Dir().Plugin})
}

// mergeLateReconstructions adds late results to the actual state.
func (l *loop) mergeLateReconstructions() {
	late := l.reconstructor.DrainLate()
	if len(late) == 0 {
		return
	}
	l.mu.Lock()
	defer l.unlock()
	leftovers := slices.Clone(l.leftovers)
	for _, r := range late {
		leftovers = slices.DeleteFunc(leftovers, func(left Leftover) bool { return left.Path == r.Found.Path })
		leftovers = append(leftovers, l.mergeReconstructed(r)...)
	}
	l.setLeftovers(leftovers)
	l.adoptNames()
	l.markAllDirty()
	l.notifyAllWaiters()
}

// mergeReconstructed adds a reconstructed volume to the actual state, or returns it as a
// leftover. The caller holds mu.
func (l *loop) mergeReconstructed(r reconstruction.Volume) (left []Leftover) {
	switch {
	case l.isKnown(r.Found):
		return nil
	case r.Err == nil && l.schedule.IsBusy(r.Unique): // the next time
		r.Err = errBusy
		fallthrough
	case r.Err != nil:
		return []Leftover{leftoverOf(r)}
	}
	l.have.Merge(r.Unique, r.Actual)
	l.dirty[r.Unique] = true
	return nil
}

// isKnown reports whether a directory has a known volume, as during each operation in the
// directory. A desired volume alone does not count: it may become undesired before its set-up.
// Nor does a volume of another plugin, which has a directory of the same name elsewhere.
func (s *snapshot) isKnown(f poddirs.Volume) bool { return s.have.Dirs.Get(f.Dir()) != "" }
