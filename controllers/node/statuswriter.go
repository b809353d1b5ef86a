package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VolumesInUse are the volumes in use on a node. A *manager.Manager is one.
type VolumesInUse interface {
	CompleteVolumesInUse() (names []v1.UniqueVolumeName, complete bool)
	SubscribeVolumesInUse(changed func()) (unsubscribe func())
	MarkVolumesAsReportedInUse(names []v1.UniqueVolumeName)
}

// Run follows the node and writes the volumes in use to node.status.volumesInUse until ctx ends;
// then it returns nil. It writes only a complete list that differs from the status, and no other
// field: until the manager has restored the volumes of an earlier run, the status keeps the
// volumes of that run. Changes during a write are merged into the next write. A failed write is
// repeated with a growing pause for as long as it takes; after a conflict Run reads the node again
// at once. If another program or a webhook replaces the list again and again, the pause before the
// next write of the same list grows to some minutes; a changed list is written at once. Before a write that removes volumes, and after each write, Run passes the reported
// volumes to MarkVolumesAsReportedInUse. A second call returns an error.
func (a *Attacher) Run(ctx context.Context, volumes VolumesInUse) error {
	a.mu.Lock()
	ran := a.ran
	a.ran = true
	a.mu.Unlock()
	if ran {
		return errors.New("node: an attacher runs once")
	}
	defer volumes.SubscribeVolumesInUse(a.poke)()
	var watching sync.WaitGroup
	watching.Go(func() { a.follow(ctx) })
	defer watching.Wait()
	w := statusWriter{Attacher: a, volumes: volumes}
	failures := 0
	for ctx.Err() == nil {
		wrote, err := w.write(ctx)
		switch {
		case err != nil && failures == 0 && apierrors.IsConflict(err): // the node has been read again
			failures++
		case err != nil && ctx.Err() == nil:
			failures++
			a.config.Logger.Warn("write of node.status.volumesInUse failed, retrying", "node", a.config.Node, "err", err)
			_ = ctxend.Sleep(ctx, pauseAfter(failures, err)) // the loop notices the end of ctx
		case wrote: // changes meanwhile share the next write
			failures = 0
			_ = ctxend.Sleep(ctx, pauseBetweenWrites)
		default:
			failures = 0
			w.wait(ctx)
		}
	}
	return nil
}

// Pauses between writes, and the time limit of a call of the API server.
const (
	pauseBetweenWrites = 100 * time.Millisecond
	firstPause         = 500 * time.Millisecond
	mostPause          = 30 * time.Second
	mostDemandedPause  = 5 * time.Minute
	callTimeout        = 30 * time.Second
)

// pauseAfter returns the pause after a number of failures in a row: at least the pause that the
// API server demands, up to mostDemandedPause, and with a random part of up to half of it.
func pauseAfter(failures int, err error) time.Duration {
	pause := growingPause(failures, mostPause)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, min(time.Duration(seconds)*time.Second, mostDemandedPause))
	}
	return randomized(pause)
}

// growingPause returns the pause after a number of failures or repetitions: doubled with each one up
// to most.
func growingPause(count int, most time.Duration) time.Duration {
	if count > 10 {
		return most
	}
	return min(most, firstPause<<(count-1))
}

// randomized adds a random part of up to half of a pause, so that not all nodes call a restarted API
// server at once.
func randomized(pause time.Duration) time.Duration { return pause + rand.N(pause/2) }

// A statusWriter writes the status for one call of Run.
type statusWriter struct {
	*Attacher
	volumes VolumesInUse
	marked  []v1.UniqueVolumeName // as passed to MarkVolumesAsReportedInUse last
	pace    repeatPace
}

// wait returns after a change of the node or of the volumes in use, at the earliest time of the next
// write of the same list, or when ctx ends.
func (w *statusWriter) wait(ctx context.Context) {
	var next <-chan time.Time
	if pause := time.Until(w.pace.next); pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		next = timer.C
	}
	select {
	case <-w.poked:
	case <-next:
	case <-ctx.Done():
	}
}

// write writes the status if it differs from the volumes in use, and passes the reported volumes
// on before and after. wrote is false if there was nothing to write.
func (w *statusWriter) write(ctx context.Context) (wrote bool, err error) {
	next := w.plan()
	if next == nil {
		return false, nil
	}
	if err := w.send(ctx, next); err != nil {
		return false, err
	}
	w.mark()
	return true, nil
}

// plan returns the write to send; nil: none. The volumes in use are read under the lock, so that an
// Attach either sees the write, or belongs to a volume that the manager already reports as in use.
func (w *statusWriter) plan() (next *statusWrite) {
	w.update(func(s *nodeStatus) {
		names, complete := w.volumes.CompleteVolumesInUse()
		next = s.plan(names, complete && w.pace.permits(names, time.Now()))
	})
	w.mark()
	return next
}

// mark passes the reported volumes to the manager if they have changed.
func (w *statusWriter) mark() {
	w.mu.Lock()
	reported := w.status.reported()
	w.mu.Unlock()
	if !slices.Equal(reported, w.marked) {
		w.volumes.MarkVolumesAsReportedInUse(reported)
		w.marked = reported
	}
}

// send sends a write. After a conflict it reads the node, so that the next write can succeed.
func (w *statusWriter) send(ctx context.Context, write *statusWrite) error {
	data, err := write.patch()
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	node, err := w.config.Cluster.Nodes().Patch(call, string(w.config.Node), types.MergePatchType, data, metav1.PatchOptions{}, "status")
	if err == nil {
		w.update(func(s *nodeStatus) {
			s.write = nil
			s.record(node)
		})
		w.recordWrite(write.names)
		return nil
	}
	w.update(func(s *nodeStatus) { s.recordFailure(isRefused(err)) })
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		if err := w.read(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("patch the status of node %q: %w", w.config.Node, err)
}

// recordWrite records a successful write, and logs repetitions of it.
func (w *statusWriter) recordWrite(names []v1.UniqueVolumeName) {
	w.pace.record(names, time.Now())
	if w.pace.repeats > 0 {
		w.config.Logger.Warn("another program or a webhook replaces node.status.volumesInUse, writing it again",
			"node", w.config.Node, "repetitions", w.pace.repeats, "next", w.pace.next)
	}
}

// read reads the node from the API server.
func (w *statusWriter) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	w.mu.Lock()
	before := w.status.node
	w.mu.Unlock()
	node, err := w.config.Cluster.Nodes().Get(ctx, string(w.config.Node), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err):
		w.update(func(s *nodeStatus) { s.recordMissing(before) })
		return nil
	case err != nil:
		return fmt.Errorf("read node %q: %w", w.config.Node, err)
	}
	w.update(func(s *nodeStatus) { s.record(node) })
	return nil
}

// isRefused reports whether the API server has refused a write, which then never takes effect.
// After any other error the write may have taken effect, or may do so later.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != 408
}
