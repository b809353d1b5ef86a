package mountcheck

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/retry"
)

// A World is the state from which the mounts of a check are selected.
type World struct {
	Have    actual.World
	Flights operation.Flights
	Retry   persistent.Map[operation.Operation, retry.FailedAttempt]
}

// Select empties the queue, and returns the mounts and the failed operations to check now, sorted.
// It leaves out mounts whose check failed and whose pause lasts. Volumes with an in-flight
// operation are checked after the operation.
func (t *Timer) Select(w World, q *Queue, now time.Time) (all []actual.ExpectedMount, failed []retry.FailedOperation) {
	if q.hasAll || q.hasFailed {
		failed = w.waitingFailures(now)
	}
	if q.hasAll || len(t.unchecked) > 0 {
		all = w.expectedMounts()
	} else {
		all = w.mountsAt(q.places)
	}
	slices.SortFunc(all, func(a, b actual.ExpectedMount) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Place().Compare(b.Place()))
	})
	t.dropUnexpected(all)
	all = slices.DeleteFunc(all, func(mnt actual.ExpectedMount) bool {
		if t.IsUnchecked(mnt.Path) {
			return t.isPaused(mnt.Path, now)
		}
		return !q.HasPlace(mnt.Place())
	})
	*q = Queue{}
	return all, failed
}

// expectedMounts returns the expected mounts of all volumes without an in-flight operation.
func (w World) expectedMounts() []actual.ExpectedMount {
	all := make([]actual.ExpectedMount, 0, w.Have.Volumes.Len())
	for name, v := range w.Have.Volumes.All() {
		if w.Flights.IsBusy(name) {
			w.Flights.CheckMountsAtEnd(name)
			continue
		}
		if mnt, ok := v.ExpectedMount(naming.Place{Volume: name}); ok {
			all = append(all, mnt)
		}
		for key := range v.Pods.All() {
			if mnt, ok := v.ExpectedMount(naming.Place{Volume: name, Key: key}); ok {
				all = append(all, mnt)
			}
		}
	}
	return all
}

// mountsAt is expectedMounts for some places.
func (w World) mountsAt(places map[naming.Place]bool) (all []actual.ExpectedMount) {
	for at := range places {
		if w.Flights.IsBusy(at.Volume) {
			w.Flights.CheckMountsAtEnd(at.Volume)
			continue
		}
		if mnt, ok := w.Have.Volumes.Get(at.Volume).ExpectedMount(at); ok {
			all = append(all, mnt)
		}
	}
	return all
}

// waitingFailures returns the operations in backoff whose mount point is known.
func (w World) waitingFailures(now time.Time) (all []retry.FailedOperation) {
	for op, a := range w.Retry.All() {
		if a.Where.Path != "" && a.Until.After(now) && !w.Flights.IsBusy(op.Volume) {
			all = append(all, retry.FailedOperation{Operation: op, FailedAttempt: a})
		}
	}
	slices.SortFunc(all, func(a, b retry.FailedOperation) int { return a.Operation.Compare(b.Operation) })
	return all
}
