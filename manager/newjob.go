package manager

import (
	"cmp"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/volume"
)

// jobFor collects the inputs of an operation: the actual state of the volume, and the desired
// state if the operation brings the volume up. The caller holds mu.
func (w *world) jobFor(plugins *volume.VolumePluginMgr, op operation.Operation) (execution.Job, error) {
	j := execution.Job{Operation: op}
	w.addActual(&j)
	want := w.want.Volumes.Get(op.Volume)
	if operation.BringsUp(op.Verb) && want != nil {
		addDesired(&j, want, w.schedule.Revisions.Get(op.Pod))
	}
	switch op.Verb {
	case operation.SetUp:
		w.assumeUnrecognized(&j)
	case operation.TearDown:
		w.addSubpaths(&j)
	}
	plugin, err := plugins.FindPluginByName(j.PluginName)
	if err != nil {
		return j, err
	}
	j.Plugin = plugin
	if operation.BringsUp(op.Verb) && j.Traits.Shared() {
		j.Record = recordBefore(&j)
	}
	return j, nil
}

// assumeUnrecognized makes the volume uncertain in the pod of a set-up if its directory there is
// unrecognized: the volume may be up.
func (w *world) assumeUnrecognized(j *execution.Job) {
	pod := j.Operation.Pod
	if w.schedule.UnrecognizedDirs[j.Before.DirOf(pod)] && j.Before.StateOf(pod) == actual.Absent {
		j.Before = j.Before.WithPod(pod, &actual.Pod{State: actual.Uncertain, Block: j.Traits.Block})
	}
}

// recordBefore returns the record to write before the operation of a shared volume. A shared step
// records its own specification; a set-up keeps that of the shared steps before it.
func recordBefore(j *execution.Job) *record.Record {
	rec := record.Of(j.Volume, j.Before, j.Operation.Pod)
	rec.Size = cmp.Or(rec.Size, j.OldSize)
	if j.Verb != operation.SetUp {
		rec.Spec = record.Spec{Volume: j.Spec.Volume, PersistentVolume: j.Spec.PersistentVolume, ReadOnly: j.Spec.ReadOnly}
	}
	return rec
}

// addSubpaths adds to a tear-down the volume's subpaths, and whether the pod is gone.
func (w *world) addSubpaths(j *execution.Job) {
	pod := j.Operation.Pod
	j.PodGone = w.want.Pod(pod.Pod) == nil
	j.Subpaths = w.subpathsOf(naming.Place{Volume: j.Volume, Key: pod}, j.Before.Pods.Get(pod))
}

// subpathsOf returns a function that selects the subpaths of a volume by its name in the
// pod: the name of its set-up, and every name that no other volume of the pod has. After a
// restart the name of the set-up is not known. The caller holds mu.
func (w *world) subpathsOf(at naming.Place, have *actual.Pod) func(outer string) bool {
	others := map[string]bool{}
	demand := w.want.Demands.Get(at.Key.Pod)
	for _, p := range demand.VolumesOrNone() {
		others[p.Pod.OuterName] = p.Place != at
	}
	for _, v := range demand.FailedOrNone() {
		others[v.Name] = true
	}
	for _, e := range w.have.Dirs.Of(at.Key.Pod) {
		other := naming.Place{Volume: e.Volume, Key: naming.PodKey{Pod: at.Key.Pod, Name: e.Name}}
		if pod := w.have.Volumes.Get(e.Volume).Pods.Get(other.Key); pod != nil && other != at {
			others[pod.OuterName] = true
		}
	}
	return func(outer string) bool { return !others[outer] || have != nil && have.OuterName == outer }
}

// addActual adds the actual state of the volume: the state after the last operation or, before
// the first one, the desired volume with all parts absent.
func (w *world) addActual(j *execution.Job) {
	v := w.have.Volumes.Get(j.Volume)
	if v == nil {
		want := w.want.Volumes.Get(j.Volume)
		v = &actual.Volume{Plugin: want.Plugin, Name: want.Name, Spec: want.Spec, Traits: want.Traits}
		if w.hasBrokenRecord(j.Volume) { // the volume may be up; the operation writes a new record
			v.LastPod, v.DeviceMountPath = want.Pods[0].Key, want.DeviceMountPath
			v.AssumeUncertain()
		}
	}
	j.Before = v
	j.PluginName, j.Name, j.Spec, j.Traits = v.Plugin, v.Name, v.Spec, v.Traits
	j.DevicePath, j.DeviceMountPath, j.OldSize, j.LastPod = v.DevicePath, v.DeviceMountPath, v.Size, v.LastPod
	want := w.want.Volumes.Get(j.Volume)
	if want == nil {
		return
	}
	if j.OldSize = v.KnownSize(want.ClaimSize); j.OldSize == nil && operation.BringsUp(j.Verb) {
		j.OldSize = want.Size // without a known size: a new volume has the requested one
	}
	if j.Verb == operation.Expand {
		j.Size, j.Spec = want.Size, want.Spec
		if have, user := planning.UserToGrow(v, want); have != nil {
			j.VolumePath, j.Grower = have.Path, &execution.Grower{Pod: user.Pod, Claim: user.Claim}
		}
	}
}

// addDesired adds the desired state of the pod. A shared step uses a pod that may write to
// the volume, because for a reader a plugin does not format a blank device.
func addDesired(j *execution.Job, want *desired.Volume, revision int64) {
	key := j.Operation.Pod
	if j.Verb != operation.SetUp {
		key = want.Writer()
	}
	pod := want.Pods.Get(key)
	j.Spec, j.ForPod, j.OuterName, j.Args, j.Revision = pod.Spec, pod.Pod, pod.OuterName, pod.Args, revision
	if j.Verb == operation.MountDevice {
		j.DeviceMountPath = cmp.Or(j.DeviceMountPath, want.DeviceMountPath)
	}
}
