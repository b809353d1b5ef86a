package planning

import (
	"slices"
	"time"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/retry"
	v1 "k8s.io/api/core/v1"
)

// Operations returns the operations to start now, at most one for each volume, and the time of the
// next retry; zero: none. It is a pure function: the same worlds give the same operations in
// the same order.
//
// Each volume goes through
//
//	absent --attach--> attached --mountDevice--> mounted once --setUp--> up in pods
//	       <--detach--          <-unmountDevice-              <-tearDown-
//
// and skips the steps that its plugin does not need. An uncertain step is repeated on the way
// up and undone on the way down. Nothing is detached or unmounted below a step that is, or
// may be, done.
func Operations(want desired.World, have actual.World, s Schedule, now time.Time) (ops []operation.Operation, again time.Time) {
	for _, name := range VolumeNames(want, have) {
		op, ok, later := NextOperation(name, want, have, s, now)
		if ok {
			ops = append(ops, op)
		}
		again = retry.Earlier(again, later)
	}
	slices.SortFunc(ops, operation.Operation.Compare)
	return ops, again
}

// NextOperation returns the operation of one volume to start now; false: none. again is the time
// of its next retry; zero: none.
func NextOperation(name v1.UniqueVolumeName, want desired.World, have actual.World, s Schedule, now time.Time) (op operation.Operation, ok bool, again time.Time) {
	p := PlannerOf(name, want, have, s, now)
	switch {
	case !s.IsBusy(name):
		op, ok = p.nextOperation()
	case p.isBeingTornDown():
		op, ok = p.planTearDown()
	}
	if ok {
		return op, true, time.Time{}
	}
	return operation.Operation{}, false, p.retryAt
}

// VolumeNames returns the names of all desired and existing volumes, sorted.
func VolumeNames(want desired.World, have actual.World) []v1.UniqueVolumeName {
	all := slices.AppendSeq(slices.Collect(want.Volumes.Keys()), have.Volumes.Keys())
	slices.Sort(all)
	return slices.Compact(all)
}
