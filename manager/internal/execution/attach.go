package execution

import (
	"context"

	"github.com/volumekit/volumekit/manager/internal/actual"
)

// attach attaches the volume to the node, and waits for its device.
type attach struct{}

func (attach) run(ctx context.Context, r *Runner, j *Job, _ *Outcome) (err error) {
	j.DevicePath, err = r.Attacher.Attach(ctx, r.attachmentOf(*j))
	return err
}

func (attach) markInFlight(v *actual.Volume, _ Job) {
	if v.Attached == actual.Absent {
		v.Attached = actual.Uncertain
	}
}

func (attach) applyOutcome(v *actual.Volume, out Outcome) {
	if v.Attached = actual.StateAfterUp(v.Attached, out.Err); out.Err == nil {
		v.DevicePath, v.Spec = out.DevicePath, out.Spec
	}
	if v.LastPod.Pod == "" {
		v.LastPod = out.sharedUser()
	}
}
