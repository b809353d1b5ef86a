package planning

import (
	"time"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/retry"
	v1 "k8s.io/api/core/v1"
)

// A Planner finds the next operation of one volume.
type Planner struct {
	Schedule
	name        v1.UniqueVolumeName
	Want        *desired.Volume
	Have        *actual.Volume
	now         time.Time
	mayTakeDown bool // undesired volumes may be taken down
	keep        naming.UIDSet
	dirs        naming.DirMap
	storage     naming.StorageMap
	places      naming.NameMap[string]

	retryAt time.Time
}

// PlannerOf returns the planner of a volume. A missing volume is an empty one.
func PlannerOf(name v1.UniqueVolumeName, want desired.World, have actual.World, s Schedule, now time.Time) Planner {
	p := Planner{
		Schedule: s, name: name, Want: want.Volumes.Get(name), Have: have.Volumes.Get(name),
		now: now, mayTakeDown: want.Populated, keep: want.Kept, dirs: have.Dirs, storage: have.Storage, places: have.Places,
	}
	if p.Have == nil {
		p.Have = &actual.Volume{}
	}
	if p.Want == nil {
		p.Want = &desired.Volume{Traits: p.Have.Traits}
	}
	return p
}

// nextOperation returns the first operation that is due.
func (p *Planner) nextOperation() (operation.Operation, bool) {
	for _, step := range []func() (operation.Operation, bool){p.planTearDown, p.planSetUp, p.planRepair, p.planExpansion, p.planRelease} {
		if op, ok := step(); ok {
			return op, true
		}
	}
	return operation.Operation{}, false
}

// ifDue returns the operation, unless it is in backoff.
func (p *Planner) ifDue(v operation.Verb, pod naming.PodKey) (operation.Operation, bool) {
	op := operation.Operation{Verb: v, Volume: p.name, Pod: pod}
	if until := p.Retry.Get(op).Until; until.After(p.now) {
		p.retryAt = retry.Earlier(p.retryAt, until)
		return operation.Operation{}, false
	}
	return op, true
}
