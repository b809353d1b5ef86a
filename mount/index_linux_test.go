package mount

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIndex compares the index with a look at all that is in it.
func TestIndex(t *testing.T) {
	x := newIndex()
	all := map[uint64]indexed{}
	for i := range uint64(300) {
		id := i * 7 % 64
		m := indexed{device: device{0, uint32(i % 5)}, source: string(rune('a' + i%3)), fickle: i%11 == 0}
		if i%4 == 3 {
			delete(all, id)
			x.remove(id)
		} else {
			all[id] = m
			x.add(id, m)
		}
		for d := range uint32(5) {
			require.Equal(t, pick(all, func(m indexed) bool { return m.device.minor == d }), x.of(device{0, d}))
			require.Equal(t, pick(all, func(m indexed) bool { return m.fickle || m.device.minor == d }), x.from(origin{block: true, device: device{0, d}}))
		}
		require.Equal(t, pick(all, func(m indexed) bool { return m.fickle || m.source == "b" }), x.from(origin{source: "b"}))
	}
	have := pick(all, func(indexed) bool { return true })
	require.Equal(t, []uint64{1000}, x.keep(append(have[:3:3], 1000)))
	require.Equal(t, have[:3], pick(x.mounts, func(indexed) bool { return true }))
	x.keep(nil)
	require.Equal(t, newIndex(), x, "nothing is left")
}

func pick(all map[uint64]indexed, want func(indexed) bool) (ids []uint64) {
	for id, m := range all {
		if want(m) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
