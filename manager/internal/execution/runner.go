package execution

import (
	"context"
	"errors"
	"time"

	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/hostdisk"
	"github.com/volumekit/volumekit/manager/internal/mountcheck"
	"github.com/volumekit/volumekit/manager/internal/mountstate"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Runner runs operations: it writes records and calls plugins.
type Runner struct {
	Disk     Disk
	Mounter  mount.Interface
	Attacher Attacher
	Node     types.NodeName
	Dirs     PodDirs
	Timeout  time.Duration // of one operation
	// Progress returns a receiver of the steps of a set-up, and a function that is called at its end.
	Progress func(Job) (receive func(progress.Report), stop func())
}

// A Disk is the part of the host's root that operations write.
type Disk interface {
	Write(record.Record) error
	Remove(v1.UniqueVolumeName) error
	// UnmountSubpaths unmounts the subpaths of a pod's volume.
	UnmountSubpaths(ctx context.Context, parts hostdisk.PodSubpaths) error
	// DeviceUse reports whether a block device is held exclusively.
	DeviceUse(ctx context.Context, devicePath string) (hostdisk.DeviceUse, error)
	// RemoveEmptyParents removes the empty directories around a volume's directory.
	RemoveEmptyParents(ctx context.Context, path string) error
}

// PodDirs returns the directories of pods' volumes, like volume.VolumeHost.
type PodDirs interface {
	PodVolumeDir(pod types.UID, plugin, name string) (string, error)
}

// Run writes the record, runs the operation, and removes the record if the volume is then
// absent. If removing the record fails, the volume stays uncertain and the operation is
// repeated.
func (r *Runner) Run(ctx context.Context, j Job) Outcome {
	out := Outcome{Job: j, Err: r.writeRecord(&j)}
	if out.Err == nil {
		out = r.runVerb(ctx, j)
	}
	out.After = StateAfter(j.Before, out)
	if err := r.updateRecord(j, out); err != nil {
		out.Err = volume.AsUncertain(errors.Join(out.Err, err))
		out.After = StateAfter(j.Before, out)
	}
	return out
}

// updateRecord removes the record of an absent volume. After UnmountDevice it removes the
// device mount path from the record, because another volume may be mounted there next. After
// an expansion it records the size.
func (r *Runner) updateRecord(j Job, out Outcome) error {
	switch {
	case !j.Traits.Shared():
		return nil
	case out.After.IsAbsent():
		return r.Disk.Remove(j.Volume)
	case (j.Verb == operation.UnmountDevice || j.Verb == operation.Expand) && out.Err == nil && out.After.Spec != nil:
		return r.Disk.Write(*record.Of(j.Volume, out.After, naming.PodKey{}))
	}
	return nil
}

// writeRecord writes the record with the device mount path, so that a run killed right after
// the mount leaves the path.
func (r *Runner) writeRecord(j *Job) (err error) {
	defer func() {
		if err != nil {
			err = util.Transient(err)
		}
	}()
	if (j.Verb == operation.MountDevice || j.Before.Device != actual.Absent) && j.DeviceMountPath == "" {
		shared := ability.SharedVolume{Plugin: j.Plugin, Spec: j.Spec, Block: j.Traits.Block, Pod: j.ForPod, LastPod: j.LastPod}
		if j.DeviceMountPath, err = shared.DeviceMountPath(); err != nil {
			return err
		}
	}
	if j.Record == nil {
		return nil
	}
	j.Record.DeviceMountPath = j.DeviceMountPath
	if j.ForPod != nil {
		j.Record.For = &record.Pod{UID: j.ForPod.UID, Name: j.Spec.Name()}
	}
	return r.Disk.Write(*j.Record)
}

// runVerb runs the operation of the job. A panic of a plugin is an uncertain error.
func (r *Runner) runVerb(ctx context.Context, j Job) (out Outcome) {
	begin := time.Now()
	defer func() { out.Job, out.Took = j, time.Since(begin) }()
	defer plugincall.RecoverPanic(&out.Err)
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	out.Err = steps[j.Verb].run(ctx, r, &j, &out)
	if out.Err = markInterrupted(ctx, j.Verb, out.Err); out.Err != nil {
		out.Where = r.mountStateOf(ctx, j, out)
	}
	return out
}

// markInterrupted makes the error of an interrupted attach, mount or set-up uncertain: the
// operation may be half done, and many plugins return only the context's error.
func markInterrupted(ctx context.Context, v operation.Verb, err error) error {
	if err == nil || ctx.Err() == nil || !operation.BringsUp(v) || errors.Is(err, volume.ErrTransient) {
		return err
	}
	return volume.AsUncertain(err)
}

// mountStateOf returns the mount state at the mount point of a failed operation.
func (r *Runner) mountStateOf(ctx context.Context, j Job, out Outcome) mountstate.State {
	if out.path == "" || j.Traits.Block {
		return mountstate.State{}
	}
	ctx, cancel := context.WithTimeout(ctx, mountcheck.PathTimeout)
	defer cancel()
	s, err := mountstate.At(ctx, r.Mounter, out.path)
	if err != nil {
		return mountstate.State{}
	}
	if operation.TakesDown(j.Verb) {
		table, _ := r.Mounter.List(ctx) // without a table the operation waits for the end of its backoff
		s.Below = mountstate.Below(table, out.path)
	}
	return s
}
