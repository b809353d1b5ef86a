package reconstruction

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/volume"
)

// A Reconstructor queries plugins for the volumes in directories of pods.
type Reconstructor struct {
	Plugins *volume.VolumePluginMgr
	Wake    func() // called when a result comes late
	queries queries
}

const (
	// maxConcurrent limits the concurrent queries of one plugin; a plugin that reads the mount
	// table can read it once for many queries.
	maxConcurrent = 512
	// QueryTimeout limits one query of a plugin.
	QueryTimeout = 10 * time.Second
	// StartPatience is how long the start of the manager waits for one directory. After one
	// timeout the start does not wait for the plugin's other directories.
	StartPatience = time.Second
)

// errPluginSlow stands for a result that is still outstanding.
var errPluginSlow = errors.New("the plugin has not reconstructed the volume in time")

// reconstructOne reconstructs the volume in a directory.
func (r *Reconstructor) reconstructOne(ctx context.Context, f poddirs.Volume) Volume {
	name, err := volume.UnescapeQualifiedName(f.Plugin)
	if err != nil {
		return Volume{Found: f, Err: err}
	}
	plugin, err := r.Plugins.FindPluginByName(name)
	if err != nil {
		return Volume{Found: f, Err: err}
	}
	v, at, err := reconstructVolume(ctx, plugin, f)
	if err != nil {
		return Volume{Found: f, Err: err, Scope: scopeOf(ctx, plugin, f)}
	}
	return Volume{Found: f, Unique: at, Actual: v}
}

// DrainLate returns the late results, each once.
func (r *Reconstructor) DrainLate() []Volume { return r.queries.drainLate() }

// All reconstructs volumes in the order of found. All plugins are queried at the
// same time, so that a slow plugin delays no other. A directory without a result within the
// patience is errPluginSlow, and so are the plugin's directories that were not yet queried.
// Their results come late.
func (r *Reconstructor) All(ctx context.Context, found []poddirs.Volume, patience time.Duration) []Volume {
	all := make([]Volume, len(found))
	byPlugin := map[string][]int{}
	for i, f := range found {
		byPlugin[f.Plugin] = append(byPlugin[f.Plugin], i)
	}
	var plugins sync.WaitGroup
	for _, places := range byPlugin {
		plugins.Go(func() { r.reconstructPlugin(ctx, found, places, all, patience) })
	}
	plugins.Wait()
	return all
}

// reconstructPlugin reconstructs the volumes of one plugin.
func (r *Reconstructor) reconstructPlugin(ctx context.Context, found []poddirs.Volume, places []int, all []Volume, patience time.Duration) {
	var isSlow atomic.Bool
	forEach(places, func(i int) {
		switch {
		case ctx.Err() != nil:
		case isSlow.Load():
			all[i] = Volume{Found: found[i], Err: errPluginSlow}
		default:
			if all[i] = r.reconstructInTime(ctx, found[i], patience); errors.Is(all[i].Err, errPluginSlow) {
				isSlow.Store(true)
			}
		}
	})
	r.reconstructLater(ctx, places, all)
}

// forEach calls do for each place, at most maxConcurrent at a time.
func forEach(places []int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(maxConcurrent, len(places)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(places)); i = next.Add(1) - 1 {
				do(places[i])
			}
		})
	}
	workers.Wait()
}

// reconstructLater queries the skipped directories in the background.
func (r *Reconstructor) reconstructLater(ctx context.Context, places []int, all []Volume) {
	var queue []*query
	for _, i := range places {
		if !errors.Is(all[i].Err, errPluginSlow) {
			continue
		}
		if q := r.queries.startQuery(all[i].Found); q != nil { // the plugin has not been queried
			q.state.Store(abandoned)
			queue = append(queue, q)
		}
	}
	if len(queue) == 0 {
		return
	}
	go forEach(indexes(queue), func(i int) { r.runQuery(ctx, queue[i]) })
}

// indexes returns the indexes of a slice.
func indexes[T any](of []T) (all []int) {
	for i := range of {
		all = append(all, i)
	}
	return all
}

// reconstructInTime abandons a slow query. It starts no query of a directory with a query in
// flight.
func (r *Reconstructor) reconstructInTime(ctx context.Context, f poddirs.Volume, patience time.Duration) Volume {
	q := r.queries.startQuery(f)
	if q == nil {
		return Volume{Found: f, Err: errPluginSlow}
	}
	go r.runQuery(ctx, q)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case answer := <-q.answer:
		return answer
	case <-ctx.Done():
	case <-timer.C:
	}
	if q.state.CompareAndSwap(awaited, abandoned) {
		return Volume{Found: f, Err: errPluginSlow}
	}
	return <-q.answer // the result arrived before the query was abandoned
}

// runQuery queries the plugin about one directory.
func (r *Reconstructor) runQuery(ctx context.Context, q *query) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	if r.queries.endQuery(q, r.reconstructOne(ctx, q.Volume)) {
		r.Wake()
	}
}
