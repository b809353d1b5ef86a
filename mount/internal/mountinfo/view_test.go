package mountinfo

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// entry returns an entry with the fields that visibility depends on.
func entry(id, parent int, minor uint32, root, mountpoint string) Entry {
	return Entry{ID: id, Parent: parent, Minor: minor, Root: root, Mountpoint: mountpoint}
}

func TestView(t *testing.T) {
	table := []Entry{
		entry(1, 0, 1, "/", "/"),
		entry(2, 1, 2, "/", "/disk"),              // a file system
		entry(3, 1, 2, "/a", "/pod/a"),            // a directory of it
		entry(4, 1, 2, "/a", "/pod/stacked"),      // covered
		entry(5, 4, 3, "/", "/pod/stacked"),       // by this mount
		entry(6, 1, 2, "/a", "/over/deep/a"),      // hidden
		entry(7, 1, 4, "/", "/over"),              // by this mount, further up
		entry(8, 7, 2, "/a", "/over/a"),           // visible again
		entry(9, 1, 1, "/srv/data", "/pod/b"),     // of the root's file system
		entry(10, 2, 5, "/", "/disk/a/inner"),     // hides /disk/a/inner
		entry(11, 1, 2, "/a/inner/x", "/pod/x"),   // hidden content
		entry(12, 1, 2, "/ab", "/pod/ab"),         // a name with the same beginning
		entry(13, 99, 2, "/a", "/outside/of/all"), // without a listed parent
		entry(14, 1, 2, "/gone", "/pod/gone"),     // a removed root; a new directory has its path
		entry(15, 1, 2, "/gone", "/pod/new"),
		entry(16, 17, 6, "/", "/pod/beneath"), // covers a mount that is listed later:
		entry(17, 1, 6, "/b", "/pod/beneath"), // one that was attached beneath
	}
	table[13].Deleted = true
	view := ViewEntries(table)
	mountID := func(i int, ok bool) int {
		if !ok {
			return 0
		}
		return table[i].ID
	}
	at := func(path string) int { return mountID(view.At(path)) }
	require.Equal(t, 1, at("/"))
	require.Equal(t, 5, at("/pod/stacked"))
	require.Equal(t, 16, at("/pod/beneath"))
	require.Equal(t, 0, at("/over/deep/a"))
	require.Equal(t, 0, at("/disk/a"))
	in := func(path string) int { return mountID(view.Containing(path)) }
	require.Equal(t, 1, in("/diskette"))
	require.Equal(t, 2, in("/disk/a"))
	require.Equal(t, 10, in("/disk/a/inner/x"))
	require.Equal(t, 7, in("/over/deep/a/x"))
	require.Equal(t, 0, in("relative"))

	all := []string{"/outside/of/all", "/over/a", "/pod/a"}
	require.Equal(t, all, view.References("/disk/a"))
	require.Equal(t, []string{"/outside/of/all", "/over/a"}, view.References("/pod/a"))
	require.Equal(t, []string{"/pod/b"}, view.References("/srv/data"))
	require.Empty(t, view.References("/over/deep/a"))
	require.Empty(t, view.References("relative"))

	require.Equal(t, []string{"/disk/a", "/over/a", "/outside/of/all"}, slices.Collect(view.Origins("/pod/a")))
	require.Equal(t, []string{"/srv/data"}, slices.Collect(view.Origins("/pod/b")))
	require.Equal(t, []string{"/pod/a/inner/x", "/over/a/inner/x", "/outside/of/all/inner/x"},
		slices.Collect(view.Origins("/pod/x")), "/disk/a/inner is another mount")
	require.Empty(t, slices.Collect(view.Origins("/disk/a")))
	require.Empty(t, slices.Collect(view.Origins("/pod/gone")))
	require.Equal(t, []string{"/disk/gone"}, slices.Collect(view.Origins("/pod/new")))
	require.Equal(t, []string{"/pod/new"}, view.References("/disk/gone"))
	require.Empty(t, slices.Collect(view.Origins("/over")))
}

// TestViewOfCircularParents: a table whose parents form a circle stops no method.
func TestViewOfCircularParents(t *testing.T) {
	table := []Entry{entry(1, 2, 1, "/", "/a"), entry(2, 1, 1, "/", "/a"), entry(3, 3, 1, "", ""), entry(3, 3, 1, "x", "x")}
	view := ViewEntries(table)
	for _, path := range []string{"/a", "", "x", "/"} {
		view.At(path)
		view.References(path)
		for range view.Origins(path) {
			continue
		}
	}
}

// TestViewOfNFS: the content of an NFS mount is the directory in its source. Mounts of other
// directories of the server's file system are no references.
func TestViewOfNFS(t *testing.T) {
	export := func(id int, source, at string) Entry {
		return Entry{ID: id, Parent: 1, Minor: 9, Root: "/", Mountpoint: at, FSType: "nfs4", Source: source}
	}
	table := []Entry{
		{ID: 1, Root: "/", Mountpoint: "/", FSType: "ext4"},
		export(2, "nas:/e", "/e"), export(3, "nas:/e/a", "/a"), export(4, "nas:/e/b", "/b"), export(5, "nas:/e/a", "/bind"),
		export(6, "nas:/ea", "/ea"),
	}
	view := ViewEntries(table)
	require.Equal(t, []string{"/bind"}, view.References("/a"))
	require.Empty(t, view.References("/b"))
	require.Equal(t, []string{"/a", "/bind"}, view.References("/e/a"))
	require.Equal(t, []string{"/e/a", "/bind"}, slices.Collect(view.Origins("/a")))
	require.Empty(t, slices.Collect(view.Origins("/ea")))
}

// randomTable returns mounts of few file systems at few paths, so that mounts share content,
// hide each other, and are attached in each other.
func randomTable(random *rand.Rand) []Entry {
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/ab", "/d", "/d/a", "/d/a/b"}
	pick := func() string { return paths[random.IntN(len(paths))] }
	table := []Entry{entry(1, 0, 1, "/", "/")}
	for id := 2; id < 12; id++ {
		e := entry(id, 1+random.IntN(id-1), uint32(1+random.IntN(2)), pick(), pick())
		e.Deleted = random.IntN(8) == 0
		table = append(table, e)
	}
	return table
}

// TestOriginsBelow compares the answers with a search through all origins.
func TestOriginsBelow(t *testing.T) {
	for seed := range uint64(2000) {
		table := randomTable(rand.New(rand.NewPCG(seed, 0)))
		view := ViewEntries(table)
		for _, info := range table {
			origins := slices.Collect(view.Origins(info.Mountpoint))
			for _, dir := range []string{"/", "/a", "/a/b", "/d", "/missing"} {
				var want []string
				for _, origin := range origins {
					if origin == dir || strings.HasPrefix(origin, strings.TrimSuffix(dir, "/")+"/") {
						want = append(want, origin)
					}
				}
				got := slices.Collect(view.OriginsBelow(info.Mountpoint, dir))
				require.ElementsMatch(t, want, got, "seed %d: origins of %s below %s", seed, info.Mountpoint, dir)
			}
		}
	}
}
