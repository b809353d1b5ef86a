package execution

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/mountcheck"
	"github.com/volumekit/volumekit/manager/internal/mountstate"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
)

// setUp makes the volume available in a pod.
type setUp struct{}

func (setUp) run(ctx context.Context, r *Runner, j *Job, out *Outcome) error {
	err := setUpInPod(ctx, r, *j, out)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) && !j.Traits.Block && out.path != "" {
		r.removeRevertedParents(ctx, out.path)
	}
	return err
}

// removeRevertedParents removes the empty directories that a cancelled set-up leaves around its own,
// because they existed before: the tear-downs of the other volumes of the pod may have ended while the
// directory of this one existed. A failure leaves the directories until the next start.
func (r *Runner) removeRevertedParents(ctx context.Context, path string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mountcheck.PathTimeout)
	defer cancel()
	_ = r.Disk.RemoveEmptyParents(ctx, path)
}

func (setUp) markInFlight(v *actual.Volume, j Job) {
	pod := j.Operation.Pod
	v.Spec = v.SpecOr(j.Spec)
	if v.StateOf(pod) == actual.Absent {
		v.Pods = v.Pods.With(pod, &actual.Pod{State: actual.Uncertain, Block: v.Traits.Block})
	}
}

func (setUp) applyOutcome(v *actual.Volume, out Outcome) {
	applyToPod(v, out)
	if errors.Is(out.Err, volume.ErrNotMounted) && v.Device == actual.Present {
		v.Device = actual.Uncertain // the plugin asks for another MountDevice
	}
	if out.Err == nil && v.Size == nil {
		v.Size, v.SizeIsOld = out.OldSize, false
	}
	switch {
	case out.Err == nil && !v.Traits.Shared():
		v.Spec = out.Spec // as after mountDevice
	case v.StateOf(out.Operation.Pod) != actual.Absent:
		v.Spec = v.SpecOr(out.Spec)
	}
}

// applyToPod changes the pod to its state after its set-up.
func applyToPod(v *actual.Volume, out Outcome) {
	key := out.Operation.Pod
	var pod actual.Pod
	if before := v.Pods.Get(key); before != nil {
		pod = *before
	}
	pod.State, pod.OuterName = actual.StateAfterUp(pod.State, out.Err), out.OuterName
	if out.Err == nil {
		pod.Block, pod.Revision = out.Traits.Block, out.Revision
		pod.Path, pod.Mounted, pod.Mount = out.path, out.mounted, out.Mount
		pod.Attributes = out.attributes
	}
	if pod.State == actual.Absent {
		v.Pods = v.Pods.Without(key)
		return
	}
	v.Pods = v.Pods.With(key, &pod)
}

// setUpInPod sets the volume up, or maps its block device.
func setUpInPod(ctx context.Context, r *Runner, j Job, out *Outcome) (err error) {
	if j.Traits.Block {
		out.path, err = mapDevice(ctx, j)
		return err
	}
	if err := checkOptions(j.Plugin, j.Spec); err != nil {
		return err
	}
	mounter, err := j.Plugin.NewMounter(j.Spec, j.ForPod)
	if err != nil {
		return err
	}
	if key := j.Operation.Pod; podvolume.IsView(key.Name) {
		path, err := r.Dirs.PodVolumeDir(key.Pod, j.PluginName, key.Name)
		if err != nil {
			return err
		}
		mounter = podvolume.MounterAt(mounter, path)
	}
	out.path, out.attributes = mounter.GetPath(), mounter.GetAttributes()
	receive, stop := r.Progress(j)
	defer stop()
	ctx = progress.With(ctx, receive)
	j.Args.DevicePath, j.Args.IsRemount = j.DevicePath, j.isRemount()
	if j.Traits.DeviceMountable {
		j.Args.DeviceMountPath = j.DeviceMountPath
	}
	var before uint64 // ID of the mount before the set-up; 0: not known
	isUncertain := j.Before.StateOf(j.Operation.Pod) == actual.Uncertain
	if isUncertain && j.Before.Pods.Get(j.Operation.Pod).Mount == 0 { // as after a restart
		_, before, _ = mountstate.Query(ctx, r.Mounter, out.path)
	}
	if err := mounter.SetUp(ctx, j.Args); err != nil {
		return err
	}
	if out.mounted, out.Mount, err = mountstate.Query(ctx, r.Mounter, out.path); err != nil {
		return volume.AsUncertain(fmt.Errorf("query the mount point after the set-up: %w", err))
	}
	if isUncertain && out.Mount != 0 && out.Mount != before {
		// Another process may have replaced the mount after SetUp looked at it. A second SetUp
		// looks at the mount whose ID is known now.
		return mounter.SetUp(ctx, j.Args)
	}
	return nil
}

// isRemount reports whether the set-up is to keep what is there: the volume is up in the pod, or may be,
// and nobody has requested to renew it.
func (j *Job) isRemount() bool {
	pod := j.Before.Pods.Get(j.Operation.Pod)
	if pod == nil || pod.State == actual.Absent {
		return false
	}
	return !j.Traits.Renewable || pod.Revision == j.Revision
}

// checkOptions refuses mount options for a plugin that ignores them.
func checkOptions(plugin volume.VolumePlugin, spec *volume.Spec) error {
	able, ok := volume.As[volume.MountOptionsVolumePlugin](plugin)
	if len(spec.MountOptions()) > 0 && (!ok || !able.SupportsMountOption()) {
		return fmt.Errorf("mount options for %s: %w", plugin.GetPluginName(), volume.ErrNotSupported)
	}
	return nil
}
