package execution

import (
	"context"

	"github.com/volumekit/volumekit/manager/internal/actual"
)

// detach undoes attach.
type detach struct{}

func (detach) run(ctx context.Context, r *Runner, j *Job, _ *Outcome) error {
	return r.Attacher.Detach(ctx, r.attachmentOf(*j))
}

func (detach) markInFlight(v *actual.Volume, _ Job) {
	if v.Attached == actual.Present {
		v.Attached = actual.Uncertain
	}
}

func (detach) applyOutcome(v *actual.Volume, out Outcome) {
	v.Attached = actual.StateAfterDown(out.Err)
}
