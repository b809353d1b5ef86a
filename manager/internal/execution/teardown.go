package execution

import (
	"context"

	"github.com/volumekit/volumekit/manager/internal/actual"
)

// tearDown removes the volume from a pod, after the subpaths of the pod's containers.
type tearDown struct{}

func (tearDown) run(ctx context.Context, r *Runner, j *Job, out *Outcome) error {
	if j.Traits.Block {
		return r.unmapDevice(ctx, *j)
	}
	unmounter, err := j.Plugin.NewUnmounter(j.Operation.Pod.Name, j.Operation.Pod.Pod)
	if err != nil {
		return err
	}
	out.path = unmounter.GetPath()
	if err := r.Disk.UnmountSubpaths(ctx, r.subpathsToUnmount(ctx, *j)); err != nil {
		return err
	}
	if err := unmounter.TearDown(ctx); err != nil {
		return err
	}
	return r.Disk.RemoveEmptyParents(ctx, out.path)
}

func (tearDown) markInFlight(v *actual.Volume, j Job) {
	pod := j.Operation.Pod
	v.Pods = v.Pods.With(pod, v.Pods.Get(pod).WithState(actual.Uncertain))
}

func (tearDown) applyOutcome(v *actual.Volume, out Outcome) {
	pod := out.Operation.Pod
	if out.Err != nil {
		v.Pods = v.Pods.With(pod, v.Pods.Get(pod).WithState(actual.Uncertain))
	} else {
		v.Pods = v.Pods.Without(pod)
	}
}
