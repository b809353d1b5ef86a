package persistent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEqualsBuiltinMap: a map behaves like a Go map, and earlier versions stay unchanged.
func TestEqualsBuiltinMap(t *testing.T) {
	type version struct {
		m    Map[string, int]
		want map[string]int
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var m Map[string, int]
		want := map[string]int{}
		var versions []version
		for i := range 2_000 {
			key := fmt.Sprint(r.IntN(300))
			if r.IntN(3) == 0 {
				m = m.Without(key)
				delete(want, key)
			} else {
				m = m.With(key, i)
				want[key] = i
			}
			if i%200 == 0 {
				versions = append(versions, version{m, maps.Clone(want)})
			}
		}
		for _, v := range append(versions, version{m, want}) {
			require.Equal(t, len(v.want), v.m.Len())
			require.Equal(t, v.want, maps.Collect(v.m.All()))
			for key := range 300 {
				value, ok := v.want[fmt.Sprint(key)]
				got, found := v.m.Find(fmt.Sprint(key))
				require.Equal(t, ok, found)
				require.Equal(t, value, got)
			}
		}
		for key := range want {
			m = m.Without(key)
		}
		require.Equal(t, Map[string, int]{}, m)
	}
}

// TestEqualHashes: keys with equal hashes are different keys.
func TestEqualHashes(t *testing.T) {
	for _, same := range []uint64{0, 1 << 63, 0x1234_5678_9abc_def0} {
		var n *node[int, int]
		for key := range 10 {
			grown, added := n.withHash(key, key, same)
			require.True(t, added)
			n = grown
		}
		for key := range 10 {
			require.Equal(t, key, n.getHash(key, same))
		}
		again, added := n.withHash(3, 33, same)
		require.False(t, added)
		require.Equal(t, 33, again.getHash(3, same))
		require.Equal(t, 3, n.getHash(3, same))
		for key := range 10 {
			less, removed := n.without(key, same, depth)
			require.True(t, removed)
			_, removed = less.without(key, same, depth)
			require.False(t, removed)
			n = less
		}
		require.Nil(t, n)
	}
}

func (n *node[K, V]) withHash(key K, value V, h uint64) (*node[K, V], bool) {
	return n.with(slot[K, V]{key: key, value: value}, h, depth)
}

func (n *node[K, V]) getHash(key K, h uint64) V {
	at, found := n.index(key, h, depth)
	if !found {
		panic("it is missing")
	}
	return n.slots[at].value
}

// TestChangeCreatesFewNodes: a change creates few nodes, in maps of any size.
func TestChangeCreatesFewNodes(t *testing.T) {
	var m Map[int, int]
	for key := range 100_000 {
		m = m.With(key, key)
	}
	before := map[*node[int, int]]bool{}
	m.root.each(func(n *node[int, int]) { before[n] = true })
	made := 0
	m.With(17, 0).root.each(func(n *node[int, int]) {
		if !before[n] {
			made++
		}
	})
	require.Positive(t, made)
	require.Less(t, made, 8)
}

func (n *node[K, V]) each(do func(*node[K, V])) {
	if n == nil {
		return
	}
	do(n)
	for _, s := range n.slots {
		s.child.each(do)
	}
}

func TestAllStopsEarly(t *testing.T) {
	m := Of(map[int]int{1: 1, 2: 2, 3: 3})
	for range m.All() {
		break
	}
	for range m.Keys() {
		break
	}
	require.Equal(t, 3, m.Len())
}
