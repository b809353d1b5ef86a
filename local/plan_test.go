package local

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/util/diskprobe"
)

var (
	blank    []diskprobe.Found
	ext4     = []diskprobe.Found{{Name: "ext4", Kind: diskprobe.FileSystem, UUID: "A"}}
	xfs      = []diskprobe.Found{{Name: "xfs", Kind: diskprobe.FileSystem, UUID: "B"}}
	ntfs     = []diskprobe.Found{{Name: "ntfs", Kind: diskprobe.FileSystem}}
	lvm      = []diskprobe.Found{{Name: "lvm2", Kind: diskprobe.Member}}
	garbage  = []diskprobe.Found{{Name: "data", Kind: diskprobe.Data}}
	raidOnFS = append([]diskprobe.Found{{Name: "linux_raid", Kind: diskprobe.Member}}, ext4...)

	thisDisk  = disk.Identity{Boot: "b", Sequence: 7}
	otherDisk = disk.Identity{Boot: "b", Sequence: 8}
	rebooted  = disk.Identity{Boot: "c", Sequence: 7}
)

func mounted(uuid string) *record {
	return &record{State: stateMounted, UID: "1", Path: "/d", FSType: "ext4", FSUUID: uuid, Disk: thisDisk}
}

func unfinished(on disk.Identity) *record {
	return &record{State: stateFormatting, UID: "1", Path: "/d", FSType: "ext4", FSUUID: "A", Disk: on}
}

func TestPlan(t *testing.T) {
	format, again := step{fsType: "ext4", format: true}, step{fsType: "ext4", format: true, replace: "A"}
	mountExt4 := step{fsType: "ext4", uuid: "A"}
	content := &ContentError{}
	for name, test := range map[string]struct {
		situation
		want step
		err  error
	}{
		"blank":                             {situation{found: blank}, format, nil},
		"blank, xfs":                        {situation{found: blank, fsType: "xfs"}, step{fsType: "xfs", format: true}, nil},
		"blank, read-only":                  {situation{found: blank, readOnly: true}, step{}, ErrNotFormatted},
		"formatted":                         {situation{found: ext4}, mountExt4, nil},
		"formatted, read-only":              {situation{found: ext4, readOnly: true}, mountExt4, nil},
		"formatted, by type":                {situation{found: ext4, fsType: "ext4"}, mountExt4, nil},
		"another type":                      {situation{found: ext4, fsType: "xfs"}, step{}, content},
		"no type of ours":                   {situation{found: ntfs}, step{}, content},
		"a member":                          {situation{found: lvm}, step{}, content},
		"garbage":                           {situation{found: garbage}, step{}, content},
		"two things":                        {situation{found: raidOnFS}, step{}, content},
		"known":                             {situation{found: ext4, record: mounted("A")}, mountExt4, nil},
		"swapped for blank":                 {situation{found: blank, record: mounted("A")}, step{}, ErrDeviceSwapped},
		"swapped for another":               {situation{found: xfs, record: mounted("A")}, step{}, ErrDeviceSwapped},
		"swapped for a member":              {situation{found: lvm, record: mounted("A")}, step{}, content},
		"of another volume":                 {situation{found: blank, record: mounted("A"), uid: "2"}, format, nil},
		"recovered":                         {situation{found: blank, record: mounted("A"), uid: ""}, step{}, ErrDeviceSwapped},
		"unfinished, still blank":           {situation{found: blank, record: unfinished(thisDisk)}, format, nil},
		"unfinished, half":                  {situation{found: garbage, record: unfinished(thisDisk), marked: true}, again, nil},
		"unfinished, half, read-only":       {situation{found: garbage, record: unfinished(thisDisk), marked: true, readOnly: true}, step{}, ErrNotFormatted},
		"unfinished, without its marker":    {situation{found: garbage, record: unfinished(thisDisk)}, step{}, content},
		"unfinished, a member, marked":      {situation{found: lvm, record: unfinished(thisDisk), marked: true}, step{}, content},
		"unfinished, whole":                 {situation{found: ext4, record: unfinished(thisDisk)}, again, nil},
		"unfinished, something else by now": {situation{found: xfs, record: unfinished(thisDisk)}, step{fsType: "xfs", uuid: "B"}, nil},
		"unfinished, a member by now":       {situation{found: lvm, record: unfinished(thisDisk)}, step{}, content},
		"unfinished, two things":            {situation{found: raidOnFS, record: unfinished(thisDisk)}, step{}, content},
		"unfinished, another disk":          {situation{found: garbage, record: unfinished(otherDisk), marked: true}, step{}, content},
		"unfinished, before a boot":         {situation{found: garbage, record: unfinished(rebooted), marked: true}, step{}, content},
		"unfinished, of another volume":     {situation{found: garbage, record: unfinished(thisDisk), marked: true, uid: "2"}, step{}, content},
	} {
		if test.uid == "" && name != "recovered" {
			test.uid = "1"
		}
		test.disk = thisDisk
		got, err := plan(test.situation)
		var carries *ContentError
		switch {
		case test.err == nil:
			require.NoError(t, err, name)
		case errors.As(test.err, &carries):
			require.ErrorAs(t, err, &carries, name)
			require.NotEmpty(t, err.Error())
		default:
			require.ErrorIs(t, err, test.err, name)
		}
		require.Equal(t, test.want, got, name)
	}
}

func TestOwnerConflictWithoutPaths(t *testing.T) {
	require.Contains(t, (&OwnerConflict{Path: "/v"}).Error(), "volume at /v")
}

func TestParseRecord(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "torn": `{"state":"mou`, "no object": `[]`, "no state": `{"path":"/d"}`, "unknown": `{"state":"x","path":"/d"}`,
		"no UUID": `{"state":"mounted","path":"/d","fsType":"ext4"}`, "no path": `{"state":"block"}`,
		"relative": `{"state":"block","path":"d"}`, "zeros": "\x00\x00\x00\x00",
	} {
		_, err := parseRecord([]byte(text))
		require.Error(t, err, name)
	}
	rec, err := parseRecord([]byte(`{"state":"block","path":"/d"}`))
	require.NoError(t, err)
	require.True(t, rec.isOf("any"))
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"state":"mounted","path":"/d","fsType":"ext4","fsUUID":"A"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, err := parseRecord(text)
		if (rec == nil) == (err == nil) {
			t.Error("a record or an error")
		}
	})
}
