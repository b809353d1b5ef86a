package mount_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

// randomTable returns mounts of few file systems at few paths, so that mounts share content,
// hide each other, and are attached in each other.
func randomTable(random *rand.Rand) mount.Table {
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/ab", "/d", "/d/a", "/d/a/b"}
	pick := func() string { return paths[random.IntN(len(paths))] }
	table := mount.Table{{ID: 1, Minor: 1, Root: "/", Mountpoint: "/"}}
	for id := 2; id < 12; id++ {
		table = append(table, mount.Info{
			ID: id, Parent: 1 + random.IntN(id-1), Minor: uint32(1 + random.IntN(2)),
			Root: pick(), Mountpoint: pick(), Deleted: random.IntN(8) == 0,
		})
	}
	return table
}

// TestViewEqualsTable compares the answers of a view with those of the table. The iterators
// stop after the first origin.
func TestViewEqualsTable(t *testing.T) {
	table := randomTable(rand.New(rand.NewPCG(1, 2)))
	view := table.View()
	require.Equal(t, table, view.Table())
	for _, info := range table {
		p := info.Mountpoint
		require.Equal(t, table.Refs(p), view.Refs(p))
		require.Equal(t, table.Origins(p), slices.Collect(view.Origins(p)))
		for origin := range view.Origins(p) {
			require.Equal(t, table.Origins(p)[0], origin)
			break
		}
		for origin := range view.OriginsBelow(p, "/") {
			require.Contains(t, table.Origins(p), origin)
			break
		}
	}
}

// TestViewOfTable: a view returns the entries of its table, and compares content by device, root
// and source.
func TestViewOfTable(t *testing.T) {
	table := mount.Table{
		{ID: 1, Root: "/", Mountpoint: "/", FSType: "ext4"},
		{ID: 2, Parent: 1, Minor: 9, Root: "/", Mountpoint: "/a", FSType: "nfs4", Source: "nas:/e/a"},
		{ID: 3, Parent: 1, Minor: 9, Root: "/", Mountpoint: "/b", FSType: "nfs4", Source: "nas:/e/b"},
		{ID: 4, Parent: 1, Minor: 9, Root: "/", Mountpoint: "/bind", FSType: "nfs4", Source: "nas:/e/a"},
		{ID: 5, Parent: 1, Major: 8, Root: "/gone", Deleted: true, Mountpoint: "/gone"},
		{ID: 6, Parent: 1, Major: 8, Root: "/gone", Mountpoint: "/new"},
		{ID: 7, Parent: 4, Major: 7, Root: "/", Mountpoint: "/bind/in"},
	}
	view := table.View()
	for _, info := range table {
		at, ok := view.At(info.Mountpoint)
		require.True(t, ok)
		require.Equal(t, info, at)
	}
	in, ok := view.Containing("/bind/in/deeper")
	require.True(t, ok)
	require.Equal(t, table[6], in)
	_, ok = view.Containing("relative")
	require.False(t, ok)
	require.Equal(t, []string{"/bind"}, view.Refs("/a"))
	require.Empty(t, view.Refs("/b"))
	require.Empty(t, view.Refs("/new"), "a new directory at the path of a removed one")
	require.Equal(t, []string{"/bind"}, slices.Collect(view.Origins("/a")))
	require.Empty(t, slices.Collect(view.OriginsBelow("/a", "/b")))
}

func ExampleTable_View() {
	table := mount.Table{
		{ID: 1, Minor: 1, Root: "/", Mountpoint: "/"},
		{ID: 2, Parent: 1, Minor: 2, Root: "/", Mountpoint: "/disks/ssd"},
		{ID: 3, Parent: 1, Minor: 2, Root: "/data", Mountpoint: "/pods/1"},
	}
	view := table.View()
	at, _ := view.At("/pods/1")
	fmt.Println(at.Root)
	for origin := range view.OriginsBelow("/pods/1", "/disks") {
		fmt.Println(origin)
	}
	// Output:
	// /data
	// /disks/ssd/data
}
