package naming

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// TestPodMap: a PodMap is a sorted map; With and Without return copies.
func TestPodMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	want, have := map[PodKey]int{}, PodMap[int]{}
	for i := range 1000 {
		key := PodKey{types.UID("p" + string(rune('a'+r.IntN(10)))), "v"}
		before, copied := have, append(PodMap[int]{}, have...)
		switch r.IntN(3) {
		case 0:
			want[key], have = i, have.With(key, i)
		case 1:
			delete(want, key)
			have = have.Without(key)
		case 2:
			have = append(PodMap[int]{}, have...)
			want[key] = i
			have.Set(key, i)
		}
		require.Equal(t, copied, append(PodMap[int]{}, before...))
		got := map[PodKey]int{}
		last := PodKey{}
		for key, value := range have.All() {
			require.Negative(t, last.Compare(key))
			got[key], last = value, key
			require.Equal(t, value, have.Get(key))
		}
		require.Equal(t, want, got)
		requireDifference(t, before, have)
	}
	require.Zero(t, have.Get(PodKey{"nobody", "v"}))
}

// requireDifference: the entries outside gone and come are the same in both maps.
func requireDifference(t *testing.T, before, after PodMap[int]) {
	t.Helper()
	gone, come := Difference(before, after)
	patched := append(PodMap[int]{}, before...)
	for key := range gone.All() {
		patched = patched.Without(key)
	}
	for key, value := range come.All() {
		patched.Set(key, value)
	}
	require.Equal(t, append(PodMap[int]{}, after...), patched)
}
