package mount

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseMountinfo(t *testing.T) {
	for _, test := range []struct {
		name, line string
		want       Info
	}{
		{
			"the manual's", `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`,
			Info{
				ID: 36, Parent: 35, Major: 98, Root: "/mnt1", Mountpoint: "/mnt2",
				Flags: NoAtime, Options: []string{"rw", "noatime"}, Tags: []string{"master:1"},
				FSType: "ext3", Source: "/dev/root", SuperOptions: []string{"rw", "errors=continue"},
			},
		}, {
			"no tags, strictatime", `24 1 0:23 / /run ro,nosuid,nodev,noexec,nosymfollow,nodiratime - tmpfs tmpfs rw`,
			Info{
				ID: 24, Parent: 1, Minor: 23, Root: "/", Mountpoint: "/run",
				Flags:   ReadOnly | NoSUID | NoDev | NoExec | NoSymFollow | NoDirAtime | StrictAtime,
				Options: []string{"ro", "nosuid", "nodev", "noexec", "nosymfollow", "nodiratime"}, Tags: []string{},
				FSType: "tmpfs", Source: "tmpfs", SuperOptions: []string{"rw"},
			},
		}, {
			"escapes", `1 1 0:1 /a\040b /t\011n\012b\134h\043 rw,relatime shared:1 master:2 propagate_from:3 unbindable - fuse.x\040y s\040- rw,x=\040`,
			Info{
				ID: 1, Parent: 1, Minor: 1, Root: "/a b", Mountpoint: "/t\tn\nb\\h#",
				Options: []string{"rw", "relatime"}, Tags: []string{"shared:1", "master:2", "propagate_from:3", "unbindable"},
				FSType: "fuse.x y", Source: "s -", SuperOptions: []string{"rw", "x= "},
			},
		}, {
			"empty source", `1 1 0:1 / /x rw,relatime - tmpfs  rw`,
			Info{
				ID: 1, Parent: 1, Minor: 1, Root: "/", Mountpoint: "/x",
				Options: []string{"rw", "relatime"}, Tags: []string{}, FSType: "tmpfs", SuperOptions: []string{"rw"},
			},
		}, {
			"dashes", `1 1 0:1 / - rw,relatime - tmpfs - rw`,
			Info{
				ID: 1, Parent: 1, Minor: 1, Root: "/", Mountpoint: "-", Options: []string{"rw", "relatime"},
				Tags: []string{}, FSType: "tmpfs", Source: "-", SuperOptions: []string{"rw"},
			},
		}, {
			"removed source", `1 1 0:1 /a//deleted /x rw,relatime - tmpfs t rw`,
			Info{
				ID: 1, Parent: 1, Minor: 1, Root: "/a", Deleted: true, Mountpoint: "/x",
				Options: []string{"rw", "relatime"}, Tags: []string{}, FSType: "tmpfs", Source: "t", SuperOptions: []string{"rw"},
			},
		}, {
			"no escape", `1 1 0:1 /\04 /\9999\0 rw,relatime - tmpfs a rw`,
			Info{
				ID: 1, Parent: 1, Minor: 1, Root: `/\04`, Mountpoint: `/\9999\0`, Options: []string{"rw", "relatime"},
				Tags: []string{}, FSType: "tmpfs", Source: "a", SuperOptions: []string{"rw"},
			},
		},
	} {
		table, err := parseMountinfo([]byte(test.line + "\n"))
		require.NoError(t, err, test.name)
		require.Equal(t, Table{test.want}, table, test.name)
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
		_, err := parseMountinfo([]byte(good + line + "\n"))
		require.ErrorIs(t, err, errMountinfo, "%q", line)
		require.ErrorContains(t, err, "line 2")
	}
	table, err := parseMountinfo(nil)
	require.NoError(t, err)
	require.Empty(t, table)
}

func FuzzParseMountinfo(f *testing.F) {
	f.Add([]byte("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"))
	f.Add([]byte("1 1 0:1 / / rw - tmpfs  rw\n2 1 0:1 /a /a\\040b rw - tmpfs x rw\n"))
	f.Add([]byte("1 2 0:1 / /a rw - t s rw\n2 1 0:1 / /a/b rw - t s rw\n"))
	f.Add([]byte("\\ \\0 0:0 \\8 - - - -   "))
	if own, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		f.Add(own)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := parseMountinfo(text)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(table), strings.Count(string(text), "\n")+1)
		for _, info := range table[:min(len(table), 8)] {
			table.At(info.Mountpoint)
			table.Containing(info.Mountpoint)
			table.Refs(info.Mountpoint)
			table.Origins(info.Mountpoint)
		}
	})
}
