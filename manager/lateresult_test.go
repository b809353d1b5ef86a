package manager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/mountcheck"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/manager/internal/reconstruction"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newIdleLoop returns a loop on a node without volumes.
func newIdleLoop(t *testing.T) *loop {
	t.Helper()
	s := newSimulation(0)
	s.world.kernel.ClearFaults()
	s.startManager()
	require.Empty(t, s.failures)
	return s.loop
}

// putVolume adds a volume to the actual state, and returns the stored volume.
func (l *loop) putVolume(name v1.UniqueVolumeName, v *actual.Volume) *actual.Volume {
	v.Plugin, v.Name = "p", string(name)
	l.have.Put(name, v)
	return l.have.Volumes.Get(name)
}

// TestVolumeWaitsForDirectory: a volume waits for the volume that is, or may be, in its directory,
// and is planned again when that volume has gone.
func TestVolumeWaitsForDirectory(t *testing.T) {
	for _, state := range []actual.State{actual.Uncertain, actual.Present} {
		l := newIdleLoop(t)
		old := l.putVolume("old", actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: state}))
		want := desiredVolume(naming.Traits{}, podA)
		want.Plugin, want.Name = "p", "new"
		l.want.Populated = true
		l.want.Volumes = l.want.Volumes.With("new", want)
		pod := &v1.Pod{}
		pod.UID = podA.Pod
		l.want.Demands = l.want.Demands.With(podA.Pod, &desired.Demand{Pod: pod, Volumes: []desired.DemandedVolume{{Place: naming.Place{Volume: "new", Key: podA}, Volume: want, Pod: &desired.Pod{}}}})
		next := func() string {
			op, _, _ := planning.NextOperation("new", l.want.World, l.have, l.schedule, time.Unix(0, 0))
			return op.String()
		}
		require.Equal(t, operation.Operation{}.String(), next(), "the old volume is %v", state)

		down := execution.Outcome{Job: execution.Job{Operation: operation.Operation{Verb: operation.TearDown, Volume: "old", Pod: podA}, PluginName: "p", Name: "old"}}
		down.After = execution.StateAfter(old, down)
		l.have.Put("old", down.After)
		l.dirty = map[v1.UniqueVolumeName]bool{}
		l.replanBlocked(down)
		require.Contains(t, l.dirty, v1.UniqueVolumeName("new"), "nothing else wakes it")
		require.Equal(t, operation.Operation{Verb: operation.SetUp, Volume: "new", Pod: podA}.String(), next())
	}
}

func reconstructedIn(pod types.UID) reconstruction.Volume {
	v := actualVolume(diskTraits, actual.Uncertain, actual.Uncertain, map[naming.PodKey]actual.State{{Pod: pod, Name: "vol"}: actual.Uncertain})
	v.Plugin, v.Name = "p", "disk"
	return reconstruction.Volume{Found: poddirs.Volume{Pod: pod, Plugin: "p", Name: "vol", Path: "/found"}, Unique: "disk", Actual: v}
}

// TestLateReconstructionIsMerged: the shared steps below a late reconstructed volume of a pod become
// uncertain if they were absent.
func TestLateReconstructionIsMerged(t *testing.T) {
	for _, attached := range []actual.State{actual.Absent, actual.Uncertain, actual.Present} {
		for _, device := range []actual.State{actual.Absent, actual.Uncertain, actual.Present} {
			l := newIdleLoop(t)
			l.putVolume("disk", actualVolume(diskTraits, attached, device, map[naming.PodKey]actual.State{podA: actual.Uncertain}))
			l.restorer.applyScan(t.Context(), scanResult{volumes: []reconstruction.Volume{reconstructedIn("b")}})
			v := l.have.Volumes.Get("disk")
			require.Equal(t, max(attached, actual.Uncertain), v.Attached)
			require.Equal(t, max(device, actual.Uncertain), v.Device)
			require.Equal(t, actual.Uncertain, v.StateOf(podA))
			require.Equal(t, actual.Uncertain, v.StateOf(podB))
		}
	}
}

// TestLateReconstructionWaitsForOperation: a late reconstruction of a volume with an in-flight operation is left to
// the next rescan, because the outcome of the operation would overwrite it.
func TestLateReconstructionWaitsForOperation(t *testing.T) {
	l := newIdleLoop(t)
	before := l.putVolume("disk", actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Present}))
	f := &operation.Flight{Operation: operation.Operation{Verb: operation.UnmountDevice, Volume: "disk", Pod: naming.PodKey{}}}
	l.schedule.Add(f)
	found := scanResult{volumes: []reconstruction.Volume{reconstructedIn("b")}}
	l.restorer.applyScan(t.Context(), found)
	require.Same(t, before, l.have.Volumes.Get("disk"))
	require.Len(t, l.leftovers, 1)
	require.ErrorIs(t, l.leftovers[0].Err, errBusy)

	l.schedule.Drop(f)
	l.restorer.applyScan(t.Context(), found)
	require.Equal(t, actual.Uncertain, l.have.Volumes.Get("disk").StateOf(podB))
	require.Empty(t, l.leftovers)
}

// TestLateMountCheckIsDropped: the result of a mount check is dropped, and the mount checked again, if the
// actual state has changed since or an operation of the volume is in flight.
func TestLateMountCheckIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(l *loop, v actual.Volume)
		device    bool
	}{
		"set up again": {meanwhile: func(l *loop, v actual.Volume) {
			v.Pods = v.Pods.With(podA, &actual.Pod{State: actual.Present, Mounted: true})
			l.have.Put("disk", &v)
		}},
		"torn down":   {meanwhile: func(l *loop, v actual.Volume) { v.Pods = nil; l.have.Put("disk", &v) }},
		"gone at all": {meanwhile: func(l *loop, v actual.Volume) { l.have.Put("disk", &actual.Volume{}) }},
		"in flight": {meanwhile: func(l *loop, v actual.Volume) {
			l.schedule.Add(&operation.Flight{Operation: operation.Operation{Verb: operation.SetUp, Volume: "disk", Pod: podA}})
		}},
		"mounted for all again": {device: true, meanwhile: func(l *loop, v actual.Volume) {
			v.DeviceMount = 2
			l.have.Put("disk", &v)
		}},
		"unmounted for all": {device: true, meanwhile: func(l *loop, v actual.Volume) { v.Device = actual.Uncertain; l.have.Put("disk", &v) }},
		"for all, in flight": {device: true, meanwhile: func(l *loop, v actual.Volume) {
			l.schedule.Add(&operation.Flight{Operation: operation.Operation{Verb: operation.MountDevice, Volume: "disk", Pod: naming.PodKey{}}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newIdleLoop(t)
			v := l.putVolume("disk", actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Present}))
			v.DeviceMount = 1
			seen := actual.ExpectedMount{Path: "/device", ID: 1, Volume: "disk"}
			if !c.device {
				seen = actual.ExpectedMount{Path: "/pod", Volume: "disk", Pod: podA, Is: v.Pods.Get(podA)}
			}
			c.meanwhile(l, *v)
			now := l.have.Volumes.Get("disk")
			l.mountQueue = mountcheck.Queue{}
			l.mounts.recordVanished(seen, VolumeVanished, "%s")
			require.Same(t, now, l.have.Volumes.Get("disk"))
			again := !l.mountQueue.IsEmpty()
			for f := range l.schedule.All() {
				again = again || f.CheckAfter
			}
			require.True(t, again, "the mount is checked again")
		})
	}
}
