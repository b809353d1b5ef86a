package planning

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/retry"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	podA       = naming.PodKey{Pod: "a", Name: "vol"}
	podB       = naming.PodKey{Pod: "b", Name: "vol"}
	diskTraits = naming.Traits{Attachable: true, DeviceMountable: true}
)

const vol = v1.UniqueVolumeName("plugin/vol")

func desiredVolume(t naming.Traits, keys ...naming.PodKey) *desired.Volume {
	v := &desired.Volume{Traits: t}
	for _, key := range keys {
		v.Pods.Set(key, &desired.Pod{Spec: &volume.Spec{}})
	}
	return v
}

func actualVolume(t naming.Traits, attached, device actual.State, pods map[naming.PodKey]actual.State) *actual.Volume {
	v := &actual.Volume{Traits: t, Attached: attached, Device: device}
	for key, s := range pods {
		v.Pods.Set(key, &actual.Pod{State: s})
	}
	return v
}

// TestNextOperation: the next operation of one volume, by its desired and actual state and the schedule.
func TestNextOperation(t *testing.T) {
	at := time.Unix(1000, 0)
	size := func(text string) *resource.Quantity { q := resource.MustParse(text); return &q }
	both := map[naming.PodKey]actual.State{podA: actual.Uncertain, podB: actual.Present}
	once := desiredVolume(naming.Traits{OnePod: true}, podA, podB)
	larger := desiredVolume(diskTraits, podA)
	larger.Size = size("2Gi")
	grown := actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Present})
	grown.Size = size("2Gi")
	small := actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Present})
	small.Size = size("1Gi")
	forReaders := *small
	forReaders.DeviceReadOnly, forReaders.DeviceStaysReadOnly = true, true

	for name, test := range map[string]struct {
		want      *desired.Volume
		have      *actual.Volume
		unready   bool // not all pods have been read
		running   bool
		tearsDown bool  // a tear-down in one pod is in flight
		revision  int64 // of the pod's volume
		retry     operation.Operation
		then      string
		thenAgain bool
	}{
		"no volume":                       {then: "[]"},
		"mounted per pod":                 {want: desiredVolume(naming.Traits{}, podA), then: "[set-up a]"},
		"up":                              {want: desiredVolume(naming.Traits{}, podA), have: actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: actual.Present}), then: "[]"},
		"uncertain in the pod":            {want: desiredVolume(naming.Traits{}, podA), have: actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: actual.Uncertain}), then: "[set-up a]"},
		"another revision":                {want: desiredVolume(naming.Traits{}, podA), revision: 2, have: actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: actual.Present}), then: "[set-up a]"},
		"not attached":                    {want: desiredVolume(diskTraits, podA), then: "[attach]"},
		"uncertain attachment":            {want: desiredVolume(diskTraits, podA), have: actualVolume(diskTraits, actual.Uncertain, actual.Absent, nil), then: "[attach]"},
		"attached":                        {want: desiredVolume(diskTraits, podA), have: actualVolume(diskTraits, actual.Present, actual.Absent, nil), then: "[mount-device]"},
		"uncertain device mount":          {want: desiredVolume(diskTraits, podA), have: actualVolume(diskTraits, actual.Present, actual.Uncertain, nil), then: "[mount-device]"},
		"device mounted":                  {want: desiredVolume(diskTraits, podA), have: actualVolume(diskTraits, actual.Present, actual.Present, nil), then: "[set-up a]"},
		"another pod":                     {want: desiredVolume(diskTraits, podA, podB), have: actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Present}), then: "[set-up b]"},
		"tear-down before another set-up": {want: desiredVolume(diskTraits, podB), have: actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Present}), then: "[tear-down a]"},
		"uncertain in a pod, unused":      {have: actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Uncertain}), then: "[tear-down a]"},
		"unused":                          {have: actualVolume(diskTraits, actual.Present, actual.Present, nil), then: "[unmount-device]"},
		"uncertain, unused":               {have: actualVolume(diskTraits, actual.Present, actual.Uncertain, nil), then: "[unmount-device]"},
		"unmounted, unused":               {have: actualVolume(diskTraits, actual.Present, actual.Absent, nil), then: "[detach]"},
		"uncertain attachment, unused":    {have: actualVolume(diskTraits, actual.Uncertain, actual.Absent, nil), then: "[detach]"},
		"pods not read":                   {have: actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Present}), unready: true, then: "[]"},
		"pods not read, one needs it":     {want: desiredVolume(naming.Traits{}, podB), have: actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: actual.Present}), unready: true, then: "[set-up b]"},
		"operation in flight":             {want: desiredVolume(naming.Traits{}, podA), running: true, then: "[]"},
		"concurrent tear-down":            {have: actualVolume(diskTraits, actual.Present, actual.Present, both), tearsDown: true, then: "[tear-down b]"},
		"no concurrent tear-down without attachment": {have: actualVolume(diskTraits, actual.Absent, actual.Absent, both), tearsDown: true, then: "[]"},
		"no set-up during a tear-down":               {want: desiredVolume(diskTraits, podB), have: actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Uncertain}), tearsDown: true, then: "[]"},
		"in backoff":                                 {want: desiredVolume(naming.Traits{}, podA), retry: operation.Operation{Verb: operation.SetUp, Volume: vol, Pod: podA}, then: "[]", thenAgain: true},
		"another pod in backoff":                     {want: desiredVolume(naming.Traits{}, podA, podB), retry: operation.Operation{Verb: operation.SetUp, Volume: vol, Pod: podA}, then: "[set-up b]"},
		"opposite in backoff":                        {have: actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: actual.Present}), retry: operation.Operation{Verb: operation.SetUp, Volume: vol, Pod: podA}, then: "[tear-down a]"},
		"set-up beside a failed tear-down":           {want: desiredVolume(diskTraits, podB), have: actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Uncertain}), retry: operation.Operation{Verb: operation.TearDown, Volume: vol, Pod: podA}, then: "[set-up b]"},
		"no release beside a failed tear-down":       {have: actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Uncertain}), retry: operation.Operation{Verb: operation.TearDown, Volume: vol, Pod: podA}, then: "[]", thenAgain: true},
		"for one pod, in use":                        {want: once, have: actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: actual.Present}), then: "[]"},
		"for one pod, uncertain":                     {want: once, have: actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podB: actual.Uncertain, podA: actual.Absent}), then: "[set-up b]"},
		"smaller than requested":                     {want: larger, have: small, then: "[expand]"},
		"mounted for readers":                        {want: larger, have: &forReaders, then: "[]"},
		"of unknown size":                            {want: larger, have: actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Present}), then: "[]"},
		"smaller than requested, not up":             {want: larger, have: actualVolume(diskTraits, actual.Present, actual.Present, nil), then: "[set-up a]"},
		"large enough":                               {want: larger, have: grown, then: "[]"},
	} {
		want := desired.World{Populated: !test.unready}
		var have actual.World
		if test.want != nil {
			want.Volumes = want.Volumes.With(vol, test.want)
		}
		if test.have != nil {
			have.Volumes = have.Volumes.With(vol, test.have)
		}
		s := Schedule{Retry: persistent.Of(map[operation.Operation]retry.FailedAttempt{test.retry: {Backoff: retry.Backoff{Until: at.Add(time.Second)}}}),
			Revisions: naming.RevisionMap{}.With(podA, test.revision)}
		if test.running {
			s.Add(&operation.Flight{Operation: operation.Operation{Verb: operation.SetUp, Volume: vol, Pod: podA}})
		}
		if test.tearsDown {
			s.Add(&operation.Flight{Operation: operation.Operation{Verb: operation.TearDown, Volume: vol, Pod: podA}})
		}
		ops, again := Operations(want, have, s, at)
		require.Equal(t, test.then, strings.ReplaceAll(fmt.Sprint(ops), " plugin/vol", ""), name)
		require.Equal(t, test.thenAgain, !again.IsZero(), name)
		if test.thenAgain {
			require.Equal(t, at.Add(time.Second), again, name)
		}
	}
}

// TestOperationsConverge: from any actual state, and after any failures, the operations reach the
// desired state in a bounded number of steps, after which none is planned. No state on the way is
// forbidden.
func TestOperationsConverge(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		anyState := func() actual.State { return actual.State(r.IntN(3)) }
		kind := []naming.Traits{{}, diskTraits, {DeviceMountable: true}, {Attachable: true}}[r.IntN(4)]
		want := desired.World{Populated: true}
		var keys []naming.PodKey
		for _, key := range []naming.PodKey{podA, podB} {
			if r.IntN(2) == 0 {
				keys = append(keys, key)
			}
		}
		if len(keys) > 0 {
			want.Volumes = want.Volumes.With(vol, desiredVolume(kind, keys...))
		}
		v := actualVolume(kind, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: anyState(), podB: anyState()})
		if kind.Attachable {
			v.Attached = anyState()
		}
		if kind.DeviceMountable {
			v.Device = anyState()
		}
		have := actual.World{Volumes: persistent.Of(map[v1.UniqueVolumeName]*actual.Volume{vol: v})}
		faults := r.IntN(6)
		steps := 0
		for ; steps < 30; steps++ {
			ops, _ := Operations(want, have, Schedule{}, time.Time{})
			if len(ops) == 0 {
				break
			}
			fails := faults > 0 && r.IntN(2) == 0
			if fails {
				faults--
			}
			applyOperation(t, seed, v, ops[0], fails)
		}
		require.LessOrEqual(t, steps, 3*(6+6), "seed %d", seed)
		for _, key := range []naming.PodKey{podA, podB} {
			isWanted := want.Volumes.Get(vol).PodsOrNone().Get(key) != nil
			require.Equal(t, isWanted, v.Pods.Get(key).State == actual.Present, "seed %d: %v", seed, key)
		}
		if len(keys) == 0 {
			require.Equal(t, [2]actual.State{}, [2]actual.State{v.Attached, v.Device}, "seed %d", seed)
		}
	}
}

// applyOperation applies an operation to the actual state, or makes the parts uncertain that it changes.
func applyOperation(t *testing.T, seed uint64, v *actual.Volume, op operation.Operation, fails bool) {
	t.Helper()
	result := func(s actual.State) actual.State {
		if fails {
			return actual.Uncertain
		}
		return s
	}
	switch op.Verb {
	case operation.Attach:
		v.Attached = result(actual.Present)
	case operation.MountDevice:
		require.True(t, !v.Traits.Attachable || v.Attached == actual.Present, "seed %d: %v before the attachment", seed, op)
		v.Device = result(actual.Present)
	case operation.SetUp:
		require.True(t, !v.Traits.DeviceMountable || v.Device == actual.Present, "seed %d: %v before the device", seed, op)
		v.Pods.Get(op.Pod).State = result(actual.Present)
	case operation.TearDown:
		v.Pods.Get(op.Pod).State = result(actual.Absent)
	case operation.UnmountDevice:
		require.False(t, v.IsInUse(naming.PodKey{}), "seed %d: %v below a pod", seed, op)
		v.Device = result(actual.Absent)
	case operation.Detach:
		require.False(t, v.IsInUse(naming.PodKey{}), "seed %d: %v below a pod", seed, op)
		require.Equal(t, actual.Absent, v.Device, "seed %d: %v below its mount", seed, op)
		v.Attached = result(actual.Absent)
	}
}
