package execution

import (
	"context"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// A step is the work of one verb, and its effect on the actual state of the volume.
type step interface {
	// run does the work. It adds results to the job and the outcome, also if it fails.
	run(ctx context.Context, r *Runner, j *Job, out *Outcome) error
	// markInFlight makes the parts uncertain that the operation changes while it is in flight.
	markInFlight(v *actual.Volume, j Job)
	// applyOutcome changes the volume to its state after the operation.
	applyOutcome(v *actual.Volume, out Outcome)
}

// steps are the steps of all verbs.
var steps = [...]step{
	operation.TearDown:      tearDown{},
	operation.Attach:        attach{},
	operation.MountDevice:   mountDevice{},
	operation.SetUp:         setUp{},
	operation.Expand:        expand{},
	operation.UnmountDevice: unmountDevice{},
	operation.Detach:        detach{},
}

// StateAfter returns the actual state of a volume after an operation. It changes nothing.
func StateAfter(before *actual.Volume, out Outcome) *actual.Volume {
	v := *before
	steps[out.Verb].applyOutcome(&v, out)
	return &v
}

// StateDuring returns the actual state of a volume while an operation is in flight. It changes
// nothing.
func StateDuring(before *actual.Volume, j Job) *actual.Volume {
	v := *before
	steps[j.Verb].markInFlight(&v, j)
	return &v
}
