package modules

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const dep = `kernel/drivers/block/loop.ko:
kernel/fs/lockd/lockd.ko.xz: kernel/fs/nfs_common/grace.ko.xz kernel/net/sunrpc/sunrpc.ko.xz
kernel/fs/nfs/nfs.ko.xz: kernel/fs/lockd/lockd.ko.xz kernel/fs/nfs_common/grace.ko.xz kernel/net/sunrpc/sunrpc.ko.xz
kernel/fs/nfs_common/grace.ko.xz:
kernel/net/sunrpc/sunrpc.ko.xz:
kernel/drivers/md/dm-mod.ko.zst:
`

func TestOrder(t *testing.T) {
	const grace, sunrpc = "kernel/fs/nfs_common/grace.ko.xz", "kernel/net/sunrpc/sunrpc.ko.xz"
	const lockd, nfs, loop = "kernel/fs/lockd/lockd.ko.xz", "kernel/fs/nfs/nfs.ko.xz", "kernel/drivers/block/loop.ko"
	tests := []struct {
		names []string
		want  []string
	}{
		{nil, nil},
		{[]string{"loop"}, []string{loop}},
		{[]string{"loop", "loop"}, []string{loop}},
		{[]string{"lockd"}, []string{grace, sunrpc, lockd}},
		{[]string{"nfs"}, []string{grace, sunrpc, lockd, nfs}},
		{[]string{"sunrpc", "nfs", "loop"}, []string{sunrpc, grace, lockd, nfs, loop}},
		{[]string{"dm_mod"}, []string{"kernel/drivers/md/dm-mod.ko.zst"}},
		{[]string{"dm-mod"}, []string{"kernel/drivers/md/dm-mod.ko.zst"}},
		{[]string{"built-in", "", "loop"}, []string{loop}},
	}
	for _, test := range tests {
		require.Equal(t, test.want, Parse(dep).Order(test.names...), test.names)
	}
	require.Empty(t, Table{}.Order("loop"))
}

func TestParseIgnoresOtherLines(t *testing.T) {
	for _, text := range []string{"", "\n\n", "no colon", ":", ": a b", "  :  "} {
		require.Empty(t, Parse(text).paths, text)
	}
}

func FuzzOrder(f *testing.F) {
	f.Add(dep, "nfs")
	f.Add("a.ko: b.ko\nb.ko: a.ko\n", "a")
	f.Add("a.ko: a.ko\n", "a")
	f.Fuzz(func(t *testing.T, text, name string) {
		table := Parse(text)
		order := table.Order(name)
		if unique := slices.Compact(slices.Sorted(slices.Values(order))); len(unique) != len(order) {
			t.Fatalf("%q has a module twice", order)
		}
		for _, module := range order {
			for _, needed := range table.needs[module] {
				if !slices.Contains(order, needed) {
					t.Fatalf("%q lacks %q", order, needed)
				}
			}
		}
	})
}
