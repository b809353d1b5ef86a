package table

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/kernel"
)

// TestIndex compares the index with a search through all mounts.
func TestIndex(t *testing.T) {
	x := newIndex()
	all := map[uint64]indexedMount{}
	for i := range uint64(300) {
		id := i * 7 % 64
		m := indexedMount{device: kernel.Device{Major: 0, Minor: uint32(i % 5)}, source: string(rune('a' + i%3)), anySource: i%11 == 0}
		if i%4 == 3 {
			delete(all, id)
			x.remove(id)
		} else {
			all[id] = m
			x.add(id, m)
		}
		if i%6 == 5 { // some roots are found
			for id, m := range all {
				m.root, m.rootTried = id%3, true
				all[id] = m
				x.setRoot(id, m.root)
				break
			}
		}
		for d := range uint32(5) {
			for inode := range uint64(3) {
				require.Equal(t, selectMounts(all, func(m indexedMount) bool {
					return m.device.Minor == d && (m.root == 0 || m.root == inode)
				}), x.mountsShowing(kernel.Device{Major: 0, Minor: d}, inode))
			}
			require.Equal(t, selectMounts(all, func(m indexedMount) bool { return m.anySource || m.device.Minor == d }), x.mountsFrom(source{block: true, device: kernel.Device{Major: 0, Minor: d}}))
		}
		require.Equal(t, selectMounts(all, func(m indexedMount) bool { return m.anySource || m.source == "b" }), x.mountsFrom(source{text: "b"}))
	}
	have := selectMounts(all, func(indexedMount) bool { return true })
	require.Equal(t, []uint64{1000}, x.retain(append(have[:3:3], 1000)))
	require.Equal(t, have[:3], selectMounts(x.mounts, func(indexedMount) bool { return true }))
	x.retain(nil)
	require.Equal(t, newIndex(), x, "the index is empty")
}

func selectMounts(all map[uint64]indexedMount, want func(indexedMount) bool) (ids []uint64) {
	for id, m := range all {
		if want(m) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
