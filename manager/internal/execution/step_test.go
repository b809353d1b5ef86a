package execution

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const vol = v1.UniqueVolumeName("plugin/vol")

var podA = naming.PodKey{Pod: "a", Name: "vol"}

// newSpec returns a specification with an identity of its own.
func newSpec() *volume.Spec { return &volume.Spec{PersistentVolume: &v1.PersistentVolume{}} }

// outcomeOf returns the outcome of an operation with the specification.
func outcomeOf(verb operation.Verb, spec *volume.Spec, err error) Outcome {
	out := Outcome{Job: Job{Operation: operation.Operation{Verb: verb, Volume: vol}, Spec: spec, ForPod: &v1.Pod{}}, Err: err}
	if verb == operation.SetUp || verb == operation.TearDown {
		out.Operation.Pod = podA
	}
	return out
}

// TestStateAfter: a success makes the state certain, an uncertain error makes it uncertain, and
// another error keeps the state of an operation that brings up. The state before is unchanged.
func TestStateAfter(t *testing.T) {
	for verb, stateOf := range map[operation.Verb]func(*actual.Volume) actual.State{
		operation.Attach:        func(v *actual.Volume) actual.State { return v.Attached },
		operation.Detach:        func(v *actual.Volume) actual.State { return v.Attached },
		operation.MountDevice:   func(v *actual.Volume) actual.State { return v.Device },
		operation.UnmountDevice: func(v *actual.Volume) actual.State { return v.Device },
		operation.SetUp:         func(v *actual.Volume) actual.State { return v.StateOf(podA) },
		operation.TearDown:      func(v *actual.Volume) actual.State { return v.StateOf(podA) },
	} {
		for _, before := range []actual.State{actual.Absent, actual.Uncertain, actual.Present} {
			if operation.TakesDown(verb) && before == actual.Absent {
				continue // such an operation does not start
			}
			for _, err := range []error{nil, volume.ErrTransient, volume.ErrNotSupported, volume.ErrAlreadyMounted, volume.ErrUncertain} {
				v := &actual.Volume{Attached: before, Device: before}
				if before != actual.Absent {
					v.Pods = v.Pods.With(podA, &actual.Pod{State: before})
				}
				want := actual.StateAfterUp(before, err)
				if operation.TakesDown(verb) {
					want = actual.StateAfterDown(err)
				}
				after := StateAfter(v, outcomeOf(verb, newSpec(), err))
				require.Equal(t, want, stateOf(after), "%v, %v, %v", verb, before, err)
				require.Equal(t, before, stateOf(v), "%v, %v, %v", verb, before, err)
			}
		}
	}
}

// TestStateDuring: while an operation is in flight, the state that it changes is uncertain: an
// absent one if the operation brings up, a present one if it takes down.
func TestStateDuring(t *testing.T) {
	for verb := range operation.LastVerb + 1 {
		for _, before := range []actual.State{actual.Absent, actual.Uncertain, actual.Present} {
			if operation.TakesDown(verb) && before == actual.Absent {
				continue // such an operation does not start
			}
			v := &actual.Volume{Attached: before, Device: before, Pods: naming.PodMap[*actual.Pod]{{Key: podA, Value: &actual.Pod{State: before}}}}
			want := *v
			uncertain := operation.BringsUp(verb) && before == actual.Absent || operation.TakesDown(verb) && before == actual.Present
			now := StateDuring(v, outcomeOf(verb, newSpec(), nil).Job)
			if uncertain {
				switch verb {
				case operation.Attach, operation.Detach:
					want.Attached = actual.Uncertain
				case operation.MountDevice, operation.UnmountDevice:
					want.Device = actual.Uncertain
				default:
					want.Pods = want.Pods.With(podA, &actual.Pod{State: actual.Uncertain})
				}
			}
			require.Equal(t, [3]actual.State{want.Attached, want.Device, want.StateOf(podA)},
				[3]actual.State{now.Attached, now.Device, now.StateOf(podA)}, "%v, %v", verb, before)
			require.Equal(t, before, v.StateOf(podA))
		}
	}
}

// TestSpecAfterMountDevice: once the desired volume may be mounted, its specification replaces the
// reconstructed one, which may lack the UID of the volume.
func TestSpecAfterMountDevice(t *testing.T) {
	for name, test := range map[string]struct {
		before   actual.State
		err      error
		replaced bool
	}{
		"mounted":                {actual.Absent, nil, true},
		"mounted again":          {actual.Uncertain, nil, true},
		"uncertain":              {actual.Absent, volume.ErrUncertain, true},
		"uncertain again":        {actual.Uncertain, volume.ErrUncertain, true},
		"mounted otherwise":      {actual.Uncertain, volume.ErrAlreadyMounted, true},
		"failed after a restart": {actual.Uncertain, volume.ErrTransient, true},
		"failed":                 {actual.Absent, volume.ErrNotSupported, false},
	} {
		before := &actual.Volume{Attached: actual.Present, Device: test.before, Spec: newSpec()}
		out := outcomeOf(operation.MountDevice, newSpec(), test.err)
		want := map[bool]*volume.Spec{true: out.Spec, false: before.Spec}[test.replaced]
		require.Same(t, want, StateAfter(before, out).Spec, name)
	}
}

// TestSetUpWithoutDevice: a plugin whose SetUp finds the volume not mounted for all pods receives another
// MountDevice.
func TestSetUpWithoutDevice(t *testing.T) {
	for device, want := range map[actual.State]actual.State{
		actual.Present: actual.Uncertain, actual.Uncertain: actual.Uncertain, actual.Absent: actual.Absent,
	} {
		before := &actual.Volume{Device: device}
		require.Equal(t, want, StateAfter(before, outcomeOf(operation.SetUp, newSpec(), volume.AsTransient(volume.ErrNotMounted))).Device)
		require.Equal(t, device, StateAfter(before, outcomeOf(operation.SetUp, newSpec(), volume.ErrTransient)).Device)
	}
}

// TestUncertainSpec: after an operation that succeeded or is uncertain, the actual state has the
// specification of the operation. It tells the volume from another one of the same name. A
// directory keeps the specification of its existing volume.
func TestUncertainSpec(t *testing.T) {
	old, other := newSpec(), newSpec()
	for name, test := range map[string]struct {
		err                       error
		before, mounted, inOnePod *volume.Spec // after MountDevice, and after SetUp
	}{
		"done":      {nil, old, other, other},
		"uncertain": {volume.ErrUncertain, old, other, old},
		"failed":    {volume.ErrTransient, old, old, old},
		"unknown":   {volume.ErrUncertain, nil, other, other},
	} {
		before := &actual.Volume{Spec: test.before}
		require.Same(t, test.inOnePod, StateAfter(before, outcomeOf(operation.SetUp, other, test.err)).Spec, name)
		before.Traits = naming.Traits{Attachable: true, DeviceMountable: true}
		require.Same(t, test.mounted, StateAfter(before, outcomeOf(operation.MountDevice, other, test.err)).Spec, name)
	}
}

// TestSpecDuringSetUp: a volume of an earlier run without a specification receives the
// specification of its set-up while that is in flight. If the set-up is cancelled, the next
// tear-down needs the specification.
func TestSpecDuringSetUp(t *testing.T) {
	v := &actual.Volume{Pods: naming.PodMap[*actual.Pod]{{Key: podA, Value: &actual.Pod{State: actual.Uncertain}}}}
	j := outcomeOf(operation.SetUp, newSpec(), nil).Job
	require.Same(t, j.Spec, StateDuring(v, j).Spec)
	v.Spec = newSpec()
	require.Same(t, v.Spec, StateDuring(v, j).Spec)
}

// TestSizeAtFirstSetUp: a volume of unknown size receives the requested size at its first set-up, and
// so is not expanded to that size.
func TestSizeAtFirstSetUp(t *testing.T) {
	requested, known := resource.MustParse("2Gi"), resource.MustParse("1Gi")
	v, out := &actual.Volume{}, outcomeOf(operation.SetUp, newSpec(), nil)
	out.OldSize = &requested
	require.Same(t, &requested, StateAfter(v, out).Size)
	v.Size = &known
	require.Same(t, &known, StateAfter(v, out).Size)
}
