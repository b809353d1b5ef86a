package manager

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	podA  = podKey{"a", "vol"}
	podB  = podKey{"b", "vol"}
	aDisk = traits{attachable: true, deviceMountable: true}
)

const vol = v1.UniqueVolumeName("plugin/vol")

func wanted(t traits, keys ...podKey) *desiredVolume {
	v := &desiredVolume{traits: t}
	for _, key := range keys {
		v.pods.set(key, &desiredPod{spec: &volume.Spec{}})
	}
	return v
}

func having(t traits, attached, device state, pods map[podKey]state) *actualVolume {
	v := &actualVolume{traits: t, attached: attached, device: device}
	for key, s := range pods {
		v.pods.set(key, &actualPod{state: s})
	}
	return v
}

func (o operation) String() string {
	return strings.TrimSpace(fmt.Sprint(strings.ReplaceAll(o.verb.String(), " ", "-"), " ", o.pod.pod)) + " " + string(o.volume)
}

func TestPlan(t *testing.T) {
	at := time.Unix(1000, 0)
	size := func(text string) *resource.Quantity { q := resource.MustParse(text); return &q }
	once := wanted(traits{onePod: true}, podA, podB)
	larger := wanted(aDisk, podA)
	larger.size = size("2Gi")
	grown := having(aDisk, present, present, map[podKey]state{podA: present})
	grown.size = size("2Gi")

	for name, test := range map[string]struct {
		want      *desiredVolume
		have      *actualVolume
		unready   bool // not all pods are known
		running   bool
		revision  int64 // of the pod's volume
		retry     operation
		then      string
		thenAgain bool
	}{
		"nothing":                        {then: "[]"},
		"a mount of its own":             {want: wanted(traits{}, podA), then: "[set-up a]"},
		"is up":                          {want: wanted(traits{}, podA), have: having(traits{}, absent, absent, map[podKey]state{podA: present}), then: "[]"},
		"may be up":                      {want: wanted(traits{}, podA), have: having(traits{}, absent, absent, map[podKey]state{podA: uncertain}), then: "[set-up a]"},
		"has changed":                    {want: wanted(traits{}, podA), revision: 2, have: having(traits{}, absent, absent, map[podKey]state{podA: present}), then: "[set-up a]"},
		"attached first":                 {want: wanted(aDisk, podA), then: "[attach]"},
		"may be attached":                {want: wanted(aDisk, podA), have: having(aDisk, uncertain, absent, nil), then: "[attach]"},
		"mounted once":                   {want: wanted(aDisk, podA), have: having(aDisk, present, absent, nil), then: "[mount-device]"},
		"may be mounted once":            {want: wanted(aDisk, podA), have: having(aDisk, present, uncertain, nil), then: "[mount-device]"},
		"then for the pod":               {want: wanted(aDisk, podA), have: having(aDisk, present, present, nil), then: "[set-up a]"},
		"the next pod":                   {want: wanted(aDisk, podA, podB), have: having(aDisk, present, present, map[podKey]state{podA: present}), then: "[set-up b]"},
		"one leaves before the next":     {want: wanted(aDisk, podB), have: having(aDisk, present, present, map[podKey]state{podA: present}), then: "[tear-down a]"},
		"one may be there":               {have: having(aDisk, present, present, map[podKey]state{podA: uncertain}), then: "[tear-down a]"},
		"nobody's":                       {have: having(aDisk, present, present, nil), then: "[unmount-device]"},
		"nobody's, perhaps":              {have: having(aDisk, present, uncertain, nil), then: "[unmount-device]"},
		"detached last":                  {have: having(aDisk, present, absent, nil), then: "[detach]"},
		"detached, perhaps":              {have: having(aDisk, uncertain, absent, nil), then: "[detach]"},
		"not all pods are known":         {have: having(aDisk, present, present, map[podKey]state{podA: present}), unready: true, then: "[]"},
		"not all are known, one more is": {want: wanted(traits{}, podB), have: having(traits{}, absent, absent, map[podKey]state{podA: present}), unready: true, then: "[set-up b]"},
		"busy":                           {want: wanted(traits{}, podA), running: true, then: "[]"},
		"failed just now":                {want: wanted(traits{}, podA), retry: operation{setUp, vol, podA}, then: "[]", thenAgain: true},
		"another's failure":              {want: wanted(traits{}, podA, podB), retry: operation{setUp, vol, podA}, then: "[set-up b]"},
		"another verb's failure":         {have: having(traits{}, absent, absent, map[podKey]state{podA: present}), retry: operation{setUp, vol, podA}, then: "[tear-down a]"},
		"a stuck tear-down":              {want: wanted(aDisk, podB), have: having(aDisk, present, present, map[podKey]state{podA: uncertain}), retry: operation{tearDown, vol, podA}, then: "[set-up b]"},
		"not below a stuck tear-down":    {have: having(aDisk, present, present, map[podKey]state{podA: uncertain}), retry: operation{tearDown, vol, podA}, then: "[]", thenAgain: true},
		"one pod at a time":              {want: once, have: having(traits{}, absent, absent, map[podKey]state{podA: present}), then: "[]"},
		"one pod at a time, perhaps":     {want: once, have: having(traits{}, absent, absent, map[podKey]state{podB: uncertain, podA: absent}), then: "[set-up b]"},
		"grown":                          {want: larger, have: having(aDisk, present, present, map[podKey]state{podA: present}), then: "[expand]"},
		"grown when it is up":            {want: larger, have: having(aDisk, present, present, nil), then: "[set-up a]"},
		"large enough":                   {want: larger, have: grown, then: "[]"},
	} {
		want := desiredWorld{populated: !test.unready, volumes: map[v1.UniqueVolumeName]*desiredVolume{}}
		have := actualWorld{volumes: map[v1.UniqueVolumeName]*actualVolume{}}
		if test.want != nil {
			want.volumes[vol] = test.want
		}
		if test.have != nil {
			have.volumes[vol] = test.have
		}
		s := schedule{running: map[v1.UniqueVolumeName]bool{vol: test.running},
			retry: map[operation]attempt{test.retry: {delay: delay{until: at.Add(time.Second)}}}, revisions: map[podKey]int64{podA: test.revision}}
		ops, again := plan(want, have, s, at)
		require.Equal(t, test.then, strings.ReplaceAll(fmt.Sprint(ops), " plugin/vol", ""), name)
		require.Equal(t, test.thenAgain, !again.IsZero(), name)
		if test.thenAgain {
			require.Equal(t, at.Add(time.Second), again, name)
		}
	}
}

// TestPlanReachesItsEnd: from any state, whatever fails on the way, the volume gets to
// where it is wanted in a bounded number of steps, never through a state that must not
// be, and nothing more happens there.
func TestPlanReachesItsEnd(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		anyState := func() state { return state(r.IntN(3)) }
		kind := []traits{{}, aDisk, {deviceMountable: true}, {attachable: true}}[r.IntN(4)]
		want := desiredWorld{populated: true, volumes: map[v1.UniqueVolumeName]*desiredVolume{}}
		var keys []podKey
		for _, key := range []podKey{podA, podB} {
			if r.IntN(2) == 0 {
				keys = append(keys, key)
			}
		}
		if len(keys) > 0 {
			want.volumes[vol] = wanted(kind, keys...)
		}
		v := having(kind, absent, absent, map[podKey]state{podA: anyState(), podB: anyState()})
		if kind.attachable {
			v.attached = anyState()
		}
		if kind.deviceMountable {
			v.device = anyState()
		}
		have := actualWorld{volumes: map[v1.UniqueVolumeName]*actualVolume{vol: v}}
		faults := r.IntN(6)
		steps := 0
		for ; steps < 30; steps++ {
			ops, _ := plan(want, have, schedule{}, time.Time{})
			if len(ops) == 0 {
				break
			}
			fails := faults > 0 && r.IntN(2) == 0
			if fails {
				faults--
			}
			carryOut(t, seed, v, ops[0], fails)
		}
		require.LessOrEqual(t, steps, 3*(6+6), "seed %d", seed)
		for _, key := range []podKey{podA, podB} {
			isWanted := want.volumes[vol].podsOrNone().get(key) != nil
			require.Equal(t, isWanted, v.pods.get(key).state == present, "seed %d: %v", seed, key)
		}
		if len(keys) == 0 {
			require.Equal(t, [2]state{}, [2]state{v.attached, v.device}, "seed %d", seed)
		}
	}
}

// carryOut does what an operation does, or leaves uncertain what it would have changed.
func carryOut(t *testing.T, seed uint64, v *actualVolume, op operation, fails bool) {
	t.Helper()
	result := func(s state) state {
		if fails {
			return uncertain
		}
		return s
	}
	switch op.verb {
	case attach:
		v.attached = result(present)
	case mountDevice:
		require.True(t, !v.traits.attachable || v.attached == present, "seed %d: %v of what is not attached", seed, op)
		v.device = result(present)
	case setUp:
		require.True(t, !v.traits.deviceMountable || v.device == present, "seed %d: %v before the device", seed, op)
		v.pods.get(op.pod).state = result(present)
	case tearDown:
		v.pods.get(op.pod).state = result(absent)
	case unmountDevice:
		require.False(t, v.inUse(podKey{}), "seed %d: %v below a pod", seed, op)
		v.device = result(absent)
	case detach:
		require.False(t, v.inUse(podKey{}), "seed %d: %v below a pod", seed, op)
		require.Equal(t, absent, v.device, "seed %d: %v below its mount", seed, op)
		v.attached = result(absent)
	}
}
