package mountinfo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/options"
)

func TestParseMountinfo(t *testing.T) {
	for _, test := range []struct {
		name, line string
		want       Entry
	}{
		{
			"the manual's", `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`,
			Entry{
				ID: 36, Parent: 35, Major: 98, Root: "/mnt1", Mountpoint: "/mnt2",
				Flags: options.NoAtime, Options: []string{"rw", "noatime"}, Tags: []string{"master:1"},
				FSType: "ext3", Source: "/dev/root", SuperOptions: []string{"rw", "errors=continue"},
			},
		}, {
			"no tags, strictatime", `24 1 0:23 / /run ro,nosuid,nodev,noexec,nosymfollow,nodiratime - tmpfs tmpfs rw`,
			Entry{
				ID: 24, Parent: 1, Minor: 23, Root: "/", Mountpoint: "/run",
				Flags: options.ReadOnly | options.NoSUID | options.NoDev | options.NoExec |
					options.NoSymFollow | options.NoDirAtime | options.StrictAtime,
				Options: []string{"ro", "nosuid", "nodev", "noexec", "nosymfollow", "nodiratime"}, Tags: []string{},
				FSType: "tmpfs", Source: "tmpfs", SuperOptions: []string{"rw"},
			},
		}, {
			"escapes", `1 1 0:1 /a\040b /t\011n\012b\134h\043 rw,relatime shared:1 master:2 propagate_from:3 unbindable - fuse.x\040y s\040- rw,x=\040`,
			Entry{
				ID: 1, Parent: 1, Minor: 1, Root: "/a b", Mountpoint: "/t\tn\nb\\h#",
				Options: []string{"rw", "relatime"}, Tags: []string{"shared:1", "master:2", "propagate_from:3", "unbindable"},
				FSType: "fuse.x y", Source: "s -", SuperOptions: []string{"rw", "x= "},
			},
		}, {
			"empty source", `1 1 0:1 / /x rw,relatime - tmpfs  rw`,
			Entry{
				ID: 1, Parent: 1, Minor: 1, Root: "/", Mountpoint: "/x",
				Options: []string{"rw", "relatime"}, Tags: []string{}, FSType: "tmpfs", SuperOptions: []string{"rw"},
			},
		}, {
			"dashes", `1 1 0:1 / - rw,relatime - tmpfs - rw`,
			Entry{
				ID: 1, Parent: 1, Minor: 1, Root: "/", Mountpoint: "-", Options: []string{"rw", "relatime"},
				Tags: []string{}, FSType: "tmpfs", Source: "-", SuperOptions: []string{"rw"},
			},
		}, {
			"label", `1 1 0:1 / /x rw,relatime - tmpfs t rw,context="a:b:c:s0:c1,c2",size=1k`,
			Entry{
				ID: 1, Parent: 1, Minor: 1, Root: "/", Mountpoint: "/x", Options: []string{"rw", "relatime"},
				Tags: []string{}, FSType: "tmpfs", Source: "t", SuperOptions: []string{"rw", `context="a:b:c:s0:c1,c2"`, "size=1k"},
			},
		}, {
			"removed source", `1 1 0:1 /a//deleted /x rw,relatime - tmpfs t rw`,
			Entry{
				ID: 1, Parent: 1, Minor: 1, Root: "/a", Deleted: true, Mountpoint: "/x",
				Options: []string{"rw", "relatime"}, Tags: []string{}, FSType: "tmpfs", Source: "t", SuperOptions: []string{"rw"},
			},
		}, {
			"no escape", `1 1 0:1 /\04 /\9999\0 rw,relatime - tmpfs a rw`,
			Entry{
				ID: 1, Parent: 1, Minor: 1, Root: `/\04`, Mountpoint: `/\9999\0`, Options: []string{"rw", "relatime"},
				Tags: []string{}, FSType: "tmpfs", Source: "a", SuperOptions: []string{"rw"},
			},
		},
	} {
		table, err := parseEntries([]byte(test.line + "\n"))
		require.NoError(t, err, test.name)
		require.Equal(t, []Entry{test.want}, table, test.name)
	}
}

func TestParseMountinfoRefuses(t *testing.T) {
	const good = "36 35 98:0 / /mnt rw - ext3 /dev/root rw\n"
	for _, line := range []string{
		"", "x", "36 35 98:0 / /mnt rw ext3 /dev/root rw a b", "36 35 98:0 / /mnt rw - ext3 ",
		"x 35 98:0 / /mnt rw - ext3 /dev/root rw", "36 x 98:0 / /mnt rw - ext3 /dev/root rw",
		"36 35 98 / /mnt rw - ext3 /dev/root rw", "36 35 98:-1 / /mnt rw - ext3 /dev/root rw",
		"36 35 98:99999999999 / /mnt rw - ext3 /dev/root rw",
	} {
		_, err := parseEntries([]byte(good + line + "\n"))
		require.ErrorIs(t, err, errSyntax, "%q", line)
		require.ErrorContains(t, err, "line 2")
	}
	table, err := parseEntries(nil)
	require.NoError(t, err)
	require.Empty(t, table)
}

func FuzzParseMountinfo(f *testing.F) {
	fuzzTables(f, []string{
		"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n",
		"1 1 0:1 / / rw - tmpfs  rw\n2 1 0:1 /a /a\\040b rw - tmpfs x rw\n",
		"1 2 0:1 / /a rw - t s rw\n2 1 0:1 / /a/b rw - t s rw\n",
		"\\ \\0 0:0 \\8 - - - -   ",
	}, func(t *testing.T, text []byte, table []Entry) {
		require.LessOrEqual(t, len(table), strings.Count(string(text), "\n")+1)
		for _, entry := range table[:min(len(table), 8)] {
			view := ViewEntries(table)
			view.At(entry.Mountpoint)
			view.Containing(entry.Mountpoint)
			view.References(entry.Mountpoint)
			for range view.Origins(entry.Mountpoint) {
				continue
			}
		}
	})
}

// TestParseMountinfoAllocates: a line allocates no memory of its own if its options are
// those of another line and its paths have no escapes.
func TestParseMountinfoAllocates(t *testing.T) {
	const line = "36 35 98:0 /mnt1 /mnt2 rw,noatime - ext3 /dev/root rw,errors=continue\n"
	few, many := []byte(strings.Repeat(line, 10)), []byte(strings.Repeat(line, 1000))
	allocations := func(text []byte) float64 {
		return testing.AllocsPerRun(10, func() { _, _ = parseEntries(text) })
	}
	require.InDelta(t, allocations(few), allocations(many), 2)
}
