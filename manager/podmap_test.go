package manager

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPodMap: it is a map, sorted, and what with and without return is a copy.
func TestPodMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	want, have := map[podKey]int{}, podMap[int]{}
	for i := range 1000 {
		key := podKey{types.UID("p" + string(rune('a'+r.IntN(10)))), "v"}
		before, copied := have, append(podMap[int]{}, have...)
		switch r.IntN(3) {
		case 0:
			want[key], have = i, have.with(key, i)
		case 1:
			delete(want, key)
			have = have.without(key)
		case 2:
			have = append(podMap[int]{}, have...)
			want[key] = i
			have.set(key, i)
		}
		require.Equal(t, copied, append(podMap[int]{}, before...))
		got := map[podKey]int{}
		last := podKey{}
		for key, value := range have.all() {
			require.Negative(t, last.compare(key))
			got[key], last = value, key
			require.Equal(t, value, have.get(key))
		}
		require.Equal(t, want, got)
		requireDifference(t, before, have)
	}
	require.Zero(t, have.get(podKey{"nobody", "v"}))
}

// requireDifference: what is not in gone and come is the same before and after.
func requireDifference(t *testing.T, before, after podMap[int]) {
	t.Helper()
	gone, come := difference(before, after)
	patched := append(podMap[int]{}, before...)
	for key := range gone.all() {
		patched = patched.without(key)
	}
	for key, value := range come.all() {
		patched.set(key, value)
	}
	require.Equal(t, append(podMap[int]{}, after...), patched)
}

// TestActualWorld: what the world says of directories and storage is what its volumes
// say.
func TestActualWorld(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	w := newActualWorld()
	names := []v1.UniqueVolumeName{"a", "b", "c"}
	for range 5000 {
		v := &actualVolume{plugin: "p", name: []string{"x", "y"}[r.IntN(2)], attached: state(r.IntN(2))}
		name := names[r.IntN(len(names))]
		if old := w.volumes[name]; old != nil && r.IntN(2) == 0 {
			other := *old
			v = &other
		}
		for range r.IntN(3) {
			key := podKey{types.UID("p" + string(rune('a'+r.IntN(3)))), string(name) + "-v"}
			v.pods = v.pods.with(key, &actualPod{state: state(r.IntN(3))})
		}
		w.put(name, v)
		requireConsistent(t, w)
	}
}

func requireConsistent(t *testing.T, w actualWorld) {
	t.Helper()
	dirs := map[podDir]v1.UniqueVolumeName{}
	stored := 0
	for name, v := range w.volumes {
		require.False(t, v.isNothing())
		require.Contains(t, w.storage[v.storage()], name)
		for key, pod := range v.pods.all() {
			if pod.state != absent {
				dirs[v.dir(key)] = name
			}
		}
	}
	for _, at := range w.storage {
		stored += len(at)
	}
	require.Len(t, w.volumes, stored)
	found := map[podDir]v1.UniqueVolumeName{}
	for dir, name := range w.dirs.all() {
		require.Equal(t, name, w.dirs.get(dir))
		found[dir] = name
	}
	require.Equal(t, dirs, found)
}
