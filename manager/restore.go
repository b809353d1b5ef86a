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
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/manager/internal/reconstruction"
	"github.com/volumekit/volumekit/manager/internal/record"
	"k8s.io/apimachinery/pkg/types"
)

// A disk is the part of the host's root that the manager itself reads and writes. The
// simulation has its own.
type disk interface {
	execution.Disk
	// Read returns the records of volumes, and the unreadable ones by file.
	Read() ([]record.Record, map[string]record.Broken)
	// RecordDir returns the directory of the records.
	RecordDir() string
	// FindVolumes returns the directories of pods' volumes.
	FindVolumes() (poddirs.Layout, error)
	// RemoveEmptyDirs removes all empty directories of pods. No operation is in flight.
	RemoveEmptyDirs()
}

// A restorer reconstructs volumes from records and directories: those of an earlier run at the
// start, and later those that were unrecognized. The loop's goroutine uses it.
type restorer struct {
	loop          loopAccess
	config        *Config
	disk          disk
	reconstructor *reconstruction.Reconstructor

	isScanDue bool
	isRunning bool // a rescan is in flight
}

// restore reconstructs the actual state from the records and, by the plugins, from the
// directories of pods. All of it is uncertain: desired volumes are set up again, which changes
// nothing if they are in order, and others are taken down.
func (r *restorer) restore(ctx context.Context) error {
	var have actual.World
	recs, unread := r.readRecords()
	for _, rec := range recs {
		have.Put(rec.Volume, rec.ActualVolume())
	}
	leftovers := r.leftoversOfRecords(unread)
	r.disk.RemoveEmptyDirs()
	layout, err := r.disk.FindVolumes()
	if err != nil {
		return fmt.Errorf("manager: find the volumes of an earlier run: %w", err)
	}
	for _, f := range layout.Volumes {
		r.countMetric(ReconstructTotal, f)
	}
	found := slices.DeleteFunc(layout.Volumes, func(f poddirs.Volume) bool { return have.Dirs.Get(f.Dir()) != "" }) // known from a record
	leftovers = append(leftovers, r.reconstructInto(ctx, &have, found)...)
	leftovers = append(leftovers, strayLeftovers(layout, func(pod types.UID) bool { return have.Dirs.Of(pod) == nil })...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.logLeftovers(leftovers)
	r.loop.update(func(w *world) {
		w.have, w.restored, w.brokenRecords = have, true, persistent.Of(unread)
		w.setLeftovers(leftovers)
		w.markAllDirty()
		w.notifyAllWaiters()
	})
	return nil
}

func (r *restorer) logLeftovers(leftovers []Leftover) {
	for _, left := range leftovers {
		r.config.Logger.Warn("unrecognized volume left in place", "path", left.Path, "err", left.Err)
	}
}

// reconstructInto adds the reconstructed volumes to have, and returns the leftovers.
func (r *restorer) reconstructInto(ctx context.Context, have *actual.World, found []poddirs.Volume) (leftovers []Leftover) {
	for _, v := range r.reconstructor.All(ctx, found, reconstruction.StartPatience) {
		if v.Err != nil {
			leftovers = append(leftovers, leftoverOf(v))
			r.countMetric(ReconstructErrors, v.Found)
		} else if v.Actual != nil { // or ctx has ended
			have.Merge(v.Unique, v.Actual)
		}
	}
	return leftovers
}

func (r *restorer) countMetric(metric string, f poddirs.Volume) {
	r.config.Metrics.Add(metric, 1, Label{"volume_plugin", f.Dir().Plugin})
}

// A scanResult is the result of a rescan.
type scanResult struct {
	volumes []reconstruction.Volume // nil: incomplete
	layout  poddirs.Layout
	records []record.Record
	unread  map[string]record.Broken // as brokenRecords
}

// startRescan reads the leftovers again, and new directories, in the background, if a rescan is due
// and none is in flight.
func (r *restorer) startRescan(ctx context.Context) {
	if !r.isScanDue || r.isRunning {
		return
	}
	r.isScanDue, r.isRunning = false, true
	r.loop.startQuery(func() result { return r.scan(ctx) })
}

// scan reads the records and the directories whose volumes are unknown.
func (r *restorer) scan(ctx context.Context) (f scanResult) {
	layout, err := r.disk.FindVolumes()
	if err != nil {
		r.config.Logger.Warn("rescan of the pod directories failed", "err", err)
		return f
	}
	if r.loop.published().hasBrokenRecords() {
		f.records, f.unread = r.readRecords()
	}
	f.layout = layout
	f.volumes = r.reconstructor.All(ctx, slices.DeleteFunc(layout.Volumes, r.loop.published().isKnown), reconstruction.QueryTimeout+time.Second)
	return f
}

// applyScan records the result of a rescan, except for volumes that are known by now.
func (r *restorer) applyScan(ctx context.Context, f scanResult) {
	r.isRunning = false
	if f.volumes == nil || ctx.Err() != nil {
		return
	}
	r.loop.update(func(w *world) {
		w.mergeRecords(f)
		leftovers := append(r.leftoversOfRecords(maps.Collect(w.brokenRecords.All())), strayLeftovers(f.layout, w.isUnknownPod)...)
		for _, v := range f.volumes {
			leftovers = append(leftovers, w.mergeReconstructed(v)...)
		}
		w.endReconstruction(leftovers)
	})
}

// mergeLate adds late results of the reconstruction to the actual state.
func (r *restorer) mergeLate() {
	late := r.reconstructor.DrainLate()
	if len(late) == 0 {
		return
	}
	r.loop.update(func(w *world) {
		leftovers := slices.Clone(w.leftovers)
		for _, v := range late {
			leftovers = slices.DeleteFunc(leftovers, func(left Leftover) bool { return left.Path == v.Found.Path })
			leftovers = append(leftovers, w.mergeReconstructed(v)...)
		}
		w.endReconstruction(leftovers)
	})
}

// endReconstruction replaces the leftovers and plans all volumes, after reconstructed volumes were
// added. The caller holds mu.
func (w *world) endReconstruction(leftovers []Leftover) {
	w.setLeftovers(leftovers)
	w.adoptNames()
	w.markAllDirty()
	w.notifyAllWaiters()
}

// mergeReconstructed adds a reconstructed volume to the actual state, or returns it as a
// leftover. The caller holds mu.
func (w *world) mergeReconstructed(r reconstruction.Volume) (left []Leftover) {
	switch {
	case w.isKnown(r.Found):
		return nil
	case r.Err == nil && w.schedule.IsBusy(r.Unique): // the next rescan merges the volume
		r.Err = errBusy
		fallthrough
	case r.Err != nil:
		return []Leftover{leftoverOf(r)}
	}
	w.have.Merge(r.Unique, r.Actual)
	w.dirty[r.Unique] = true
	return nil
}

var errBusy = errors.New("the volume has an in-flight operation")

// leftoverOf returns the leftover of a failed reconstruction.
func leftoverOf(r reconstruction.Volume) Leftover {
	f := r.Found
	return Leftover{Path: f.Path, Pod: f.Pod, Plugin: f.Dir().Plugin, Err: r.Err, Volume: r.Unique, Scope: r.Scope}
}

// isKnown reports whether a directory has a known volume, as during each operation in the
// directory. A desired volume alone does not count: it may become undesired before its set-up.
// Nor does a volume of another plugin, which has a directory of the same name elsewhere.
func (s *snapshot) isKnown(f poddirs.Volume) bool { return s.have.Dirs.Get(f.Dir()) != "" }
