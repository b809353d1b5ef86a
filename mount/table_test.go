package mount_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

// entry is a line of a table, as far as visibility is concerned.
func entry(id, parent int, minor uint32, root, mountpoint string) mount.Info {
	return mount.Info{ID: id, Parent: parent, Minor: minor, Root: root, Mountpoint: mountpoint}
}

func TestTable(t *testing.T) {
	table := mount.Table{
		entry(1, 0, 1, "/", "/"),
		entry(2, 1, 2, "/", "/disk"),              // a file system
		entry(3, 1, 2, "/a", "/pod/a"),            // a directory of it
		entry(4, 1, 2, "/a", "/pod/stacked"),      // hidden:
		entry(5, 4, 3, "/", "/pod/stacked"),       // by this
		entry(6, 1, 2, "/a", "/over/deep/a"),      // hidden:
		entry(7, 1, 4, "/", "/over"),              // by this, further up
		entry(8, 7, 2, "/a", "/over/a"),           // visible again
		entry(9, 1, 1, "/srv/data", "/pod/b"),     // of the root's file system
		entry(10, 2, 5, "/", "/disk/a/inner"),     // in the way of /disk/a/inner
		entry(11, 1, 2, "/a/inner/x", "/pod/x"),   // under it
		entry(12, 1, 2, "/ab", "/pod/ab"),         // a name that begins alike
		entry(13, 99, 2, "/a", "/outside/of/all"), // its parent is not listed
		entry(14, 1, 2, "/gone", "/pod/gone"),     // removed, and made again
		entry(15, 1, 2, "/gone", "/pod/new"),
	}
	table[13].Deleted = true
	at := func(path string) int { info, _ := table.At(path); return info.ID }
	require.Equal(t, 1, at("/"))
	require.Equal(t, 5, at("/pod/stacked"))
	require.Equal(t, 0, at("/over/deep/a"))
	require.Equal(t, 0, at("/disk/a"))
	in := func(path string) int { info, _ := table.Containing(path); return info.ID }
	require.Equal(t, 1, in("/diskette"))
	require.Equal(t, 2, in("/disk/a"))
	require.Equal(t, 10, in("/disk/a/inner/x"))
	require.Equal(t, 7, in("/over/deep/a/x"))
	require.Equal(t, 0, in("relative"))

	all := []string{"/outside/of/all", "/over/a", "/pod/a"}
	require.Equal(t, all, table.Refs("/disk/a"))
	require.Equal(t, []string{"/outside/of/all", "/over/a"}, table.Refs("/pod/a"))
	require.Equal(t, []string{"/pod/b"}, table.Refs("/srv/data"))
	require.Empty(t, table.Refs("/over/deep/a"))
	require.Empty(t, table.Refs("relative"))

	require.Equal(t, []string{"/disk/a", "/over/a", "/outside/of/all"}, table.Origins("/pod/a"))
	require.Equal(t, []string{"/srv/data"}, table.Origins("/pod/b"))
	require.Equal(t, []string{"/pod/a/inner/x", "/over/a/inner/x", "/outside/of/all/inner/x"},
		table.Origins("/pod/x"), "/disk/a/inner is another mount")
	require.Empty(t, table.Origins("/disk/a"))
	require.Empty(t, table.Origins("/pod/gone"))
	require.Equal(t, []string{"/disk/gone"}, table.Origins("/pod/new"))
	require.Equal(t, []string{"/pod/new"}, table.Refs("/disk/gone"))
	require.Empty(t, table.Origins("/over"))
}

// A table whose parents form a circle is nobody's, and nothing hangs on it.
func TestTableOfNonsense(t *testing.T) {
	table := mount.Table{entry(1, 2, 1, "/", "/a"), entry(2, 1, 1, "/", "/a"), entry(3, 3, 1, "", ""), entry(3, 3, 1, "x", "x")}
	for _, path := range []string{"/a", "", "x", "/"} {
		table.At(path)
		table.Refs(path)
		table.Origins(path)
	}
}

// TestTableOfNFS: each mount of NFS shows the root of its own export, whatever else
// of the server's file system is mounted.
func TestTableOfNFS(t *testing.T) {
	export := func(id int, source, at string) mount.Info {
		return mount.Info{ID: id, Parent: 1, Minor: 9, Root: "/", Mountpoint: at, FSType: "nfs4", Source: source}
	}
	table := mount.Table{
		{ID: 1, Root: "/", Mountpoint: "/", FSType: "ext4"},
		export(2, "nas:/e", "/e"), export(3, "nas:/e/a", "/a"), export(4, "nas:/e/b", "/b"), export(5, "nas:/e/a", "/bind"),
		export(6, "nas:/ea", "/ea"),
	}
	require.Equal(t, []string{"/bind"}, table.Refs("/a"))
	require.Empty(t, table.Refs("/b"))
	require.Equal(t, []string{"/a", "/bind"}, table.Refs("/e/a"))
	require.Equal(t, []string{"/e/a", "/bind"}, table.Origins("/a"))
	require.Empty(t, table.Origins("/ea"))
}
