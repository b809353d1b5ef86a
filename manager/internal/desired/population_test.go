package desired

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/reading"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// randomDemand returns a demand of a few of five volumes, or nil.
func randomDemand(r *rand.Rand, uid types.UID) *Demand {
	if r.IntN(4) == 0 {
		return nil
	}
	pod := &v1.Pod{}
	pod.UID = uid
	d := &Demand{Pod: pod}
	for i := range 5 {
		name := fmt.Sprint("v", i)
		switch r.IntN(4) {
		case 0:
			d.Failed = append(d.Failed, FailedVolume{Name: name, Err: errors.New("no claim"), KeepExisting: r.IntN(2) == 0})
			d.Refs = append(d.Refs, reading.ClaimRef("ns", name))
		case 1, 2:
			key := naming.PodKey{Pod: uid, Name: name}
			w := DemandedVolume{
				naming.Place{Volume: v1.UniqueVolumeName("p/" + name), Key: key},
				&Volume{Plugin: "p", Name: name, Traits: naming.Traits{OnePod: i == 0, Remount: i == 1}, DeviceMountPath: []string{"", "/mnt/" + name}[i%2]},
				&Pod{Pod: pod, OuterName: name, Spec: &volume.Spec{}},
			}
			w.Volume.Pods.Set(key, w.Pod)
			d.Volumes = append(d.Volumes, w)
			d.Refs = append(d.Refs, reading.VolumeRef(name))
		}
	}
	return d
}

// contentOf returns the content of a population as Go maps.
func contentOf(p Population) map[string]any {
	users := map[reading.Ref]map[types.UID]struct{}{}
	for ref, uids := range p.Users.All() {
		users[ref] = maps.Collect(uids.All())
	}
	return map[string]any{
		"volumes": maps.Collect(p.Volumes.All()), "kept": maps.Collect(p.Kept.All()), "failing": maps.Collect(p.Failing.All()),
		"users": users, "one pod": maps.Collect(p.OnePod.All()), "paths": maps.Collect(p.ByDevicePath.All()), "remounts": p.Remounts,
	}
}

// TestPopulationWith: a population that was changed step by step equals the population of all
// demands; the delta names the differing pods and volumes, and no others.
func TestPopulationWith(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var p Population
	for range 2000 {
		changed := map[types.UID]*Demand{}
		for range 1 + r.IntN(3) {
			uid := types.UID(rune('a' + r.IntN(6)))
			if changed[uid] = randomDemand(r, uid); r.IntN(4) == 0 {
				changed[uid] = p.Demands.Get(uid)
			}
		}
		next, delta := p.With(changed)
		all, _ := Population{}.With(maps.Collect(next.Demands.All()))
		require.Equal(t, contentOf(all), contentOf(next))
		for uid := range changed {
			require.Equal(t, p.Demands.Get(uid) != next.Demands.Get(uid), slices.Contains(delta.Pods, uid), uid)
		}
		for name, v := range next.Volumes.All() {
			if !reflect.DeepEqual(v, p.Volumes.Get(name)) {
				require.Contains(t, delta.Volumes, name)
			}
		}
		for name := range p.Volumes.Keys() {
			if _, ok := next.Volumes.Find(name); !ok {
				require.Contains(t, delta.Volumes, name)
			}
		}
		p = next
	}
}

// TestPopulationOrder: a population depends on the demands of the pods, not on the order
// in which they changed, also if two volumes have one device mount path.
func TestPopulationOrder(t *testing.T) {
	type volumes map[types.UID]v1.UniqueVolumeName // empty: the pod is removed
	for name, steps := range map[string][]volumes{
		"the last name first":         {{"pod-1": "disk-b"}, {"pod-2": "disk-a"}},
		"the first name is removed":   {{"pod-1": "disk-a", "pod-2": "disk-b"}, {"pod-1": ""}},
		"the first name returns":      {{"pod-1": "disk-a", "pod-2": "disk-b"}, {"pod-1": ""}, {"pod-1": "disk-a"}},
		"another pod changes it":      {{"pod-1": "disk-a", "pod-2": "disk-b"}, {"pod-3": "disk-a"}},
		"the pods change the volumes": {{"pod-1": "disk-a", "pod-2": "disk-b"}, {"pod-1": "disk-b"}, {"pod-2": "disk-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var p Population
			all := map[types.UID]*Demand{}
			for _, step := range steps {
				changed := map[types.UID]*Demand{}
				for uid, volume := range step {
					changed[uid] = nil
					delete(all, uid)
					if volume != "" {
						changed[uid] = deviceDemand(uid, volume)
						all[uid] = changed[uid]
					}
				}
				p, _ = p.With(changed)
				atOnce, _ := Population{}.With(all)
				require.Equal(t, contentOf(atOnce), contentOf(p))
			}
		})
	}
}

// deviceDemand returns a demand of one volume; all these volumes have one device mount path.
func deviceDemand(uid types.UID, name v1.UniqueVolumeName) *Demand {
	pod := &v1.Pod{}
	pod.UID = uid
	w := DemandedVolume{Place: naming.Place{Volume: name, Key: naming.PodKey{Pod: uid, Name: "disk"}}, Volume: &Volume{Plugin: "sim", Name: string(name), DeviceMountPath: "/mounts/disk"}, Pod: &Pod{Pod: pod}}
	w.Volume.Pods.Set(w.Key, w.Pod)
	return &Demand{Pod: pod, Volumes: []DemandedVolume{w}}
}

// TestVolumeJoinsDemands: two names of a pod for one volume are read-only only if both are, and the size is
// that of a pod that writes.
func TestVolumeJoinsDemands(t *testing.T) {
	size := resource.MustParse("1Gi")
	key := naming.PodKey{Pod: "1", Name: "v"}
	demand := func(readOnly bool, size *resource.Quantity) DemandedVolume {
		pod := &Pod{Spec: &volume.Spec{}, Args: volume.MounterArgs{ReadOnly: readOnly}}
		w := DemandedVolume{naming.Place{Volume: "p/v", Key: key}, &Volume{Size: size}, pod}
		w.Volume.Pods.Set(key, pod)
		return w
	}
	for _, test := range []struct{ first, second, both bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		first := demand(test.first, nil)
		var j join
		j.add(first)
		j.add(demand(test.second, &size))
		require.Equal(t, test.both, j.volume.Pods.Get(key).Args.ReadOnly)
		require.Equal(t, &size, j.volume.Size)
		require.Nil(t, first.Volume.Size, "the demand is unchanged")
	}
}
