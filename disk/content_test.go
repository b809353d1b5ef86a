package disk

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/diskprobe"
)

var (
	foundExt4 = diskprobe.Found{Name: "ext4", Kind: diskprobe.FileSystem, UUID: "A"}
	foundXFS  = diskprobe.Found{Name: "xfs", Kind: diskprobe.FileSystem, UUID: "B"}
	foundNTFS = diskprobe.Found{Name: "ntfs", Kind: diskprobe.FileSystem}
	foundLVM  = diskprobe.Found{Name: "lvm2", Kind: diskprobe.Member}
	foundData = diskprobe.Found{Name: "data", Kind: diskprobe.Data}
)

func contentOf(marker string, found ...diskprobe.Found) Content {
	return Content{Info: Info{Size: 1 << 30}, Marker: marker, Found: found}
}

func TestPlan(t *testing.T) {
	own := NewUUID()
	unfinished := diskprobe.Found{Name: "btrfs, unfinished", Kind: diskprobe.Data, UUID: own}
	theirs := diskprobe.Found{Name: "btrfs, unfinished", Kind: diskprobe.Data, UUID: "00112233-4455-4677-8899-aabbccddeeff"}
	inProgress := contentOf("", diskprobe.Found{Name: "xfs", Kind: diskprobe.FileSystem, UUID: own})
	inProgress.inProgress = true
	foreign := contentOf("", foundXFS)
	foreign.inProgress = true
	large := foundExt4
	large.Size = 1<<30 + 1
	content := &ContentError{}
	for name, test := range map[string]struct {
		content  Content
		fsType   string
		readOnly bool
		want     step
		err      error
	}{
		"blank":                     {contentOf(""), "", false, step{fsType: "ext4", format: true}, nil},
		"blank, xfs":                {contentOf(""), "xfs", false, step{fsType: "xfs", format: true}, nil},
		"blank, read-only":          {contentOf(""), "", true, step{}, ErrNotFormatted},
		"formatted":                 {contentOf("", foundExt4), "", false, step{fsType: "ext4"}, nil},
		"formatted, read-only":      {contentOf("", foundExt4), "ext4", true, step{fsType: "ext4"}, nil},
		"another type":              {contentOf("", foundExt4), "xfs", false, step{}, content},
		"no type of ours":           {contentOf("", foundNTFS), "", false, step{}, content},
		"a member":                  {contentOf("", foundLVM), "", false, step{}, content},
		"data":                      {contentOf("", foundData), "", false, step{}, content},
		"a member on a file system": {contentOf("", foundLVM, foundExt4), "", false, step{}, content},
		"larger than the device":    {contentOf("", large), "", false, step{}, ErrTooSmall},
		"marker":                    {contentOf("A"), "xfs", false, step{"xfs", true, "A"}, nil},
		"marker, read-only":         {contentOf("A"), "", true, step{}, ErrNotFormatted},
		"marker, data":              {contentOf("A", foundData), "", false, step{"ext4", true, "A"}, nil},
		"marker, its file system":   {contentOf("A", foundExt4), "", false, step{"ext4", true, "A"}, nil},
		"marker, another one":       {contentOf("A", foundXFS), "", false, step{}, content},
		"marker, a member":          {contentOf("A", foundLVM), "", false, step{}, content},
		"marker, data and a member": {contentOf("A", foundData, foundLVM), "", false, step{}, content},
		"unfinished btrfs":          {contentOf("", unfinished), "", false, step{"ext4", true, own}, nil},
		"unfinished, of others":     {contentOf("", theirs), "", false, step{}, content},
		"unfinished, and more":      {contentOf("", unfinished, foundLVM), "", false, step{}, content},
		"unfinished xfs":            {inProgress, "xfs", false, step{"xfs", true, own}, nil},
		"unfinished xfs, of others": {foreign, "xfs", false, step{}, content},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan(test.content, wish{fsType: test.fsType, readOnly: test.readOnly})
			require.Equal(t, test.want, got)
			switch {
			case test.err == nil:
				require.NoError(t, err)
			case errors.As(test.err, new(*ContentError)):
				require.ErrorAs(t, err, new(*ContentError))
				require.NotEmpty(t, err.Error())
			default:
				require.ErrorIs(t, err, test.err)
			}
		})
	}
}

// TestRemains checks that IsRemains is true only for the format whose UUID the caller
// passes.
func TestRemains(t *testing.T) {
	require.True(t, contentOf("").IsRemains("A"))
	require.True(t, contentOf("", foundExt4).IsRemains("A"), "complete, and not recorded")
	require.True(t, contentOf("A", foundData).IsRemains("A"))
	require.False(t, contentOf("B", foundData).IsRemains("A"))
	require.False(t, contentOf("", foundData).IsRemains("A"))
	require.False(t, contentOf("", foundXFS).IsRemains("A"))
	require.False(t, contentOf("", diskprobe.Found{Kind: diskprobe.FileSystem}).IsRemains(""), "no UUID is nobody's")
}

func TestOwnUUID(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		uuid := NewUUID()
		require.Regexp(t, uuidPattern, uuid)
		require.True(t, isOwnUUID(uuid))
		require.False(t, seen[uuid])
		seen[uuid] = true
		other := []byte(uuid)
		other[0] = '0' + (other[0]+1)%10
		require.False(t, isOwnUUID(string(other)))
	}
	for _, not := range []string{"", "A", "00112233-4455-4677-8899-aabbccddeeff"} {
		require.False(t, isOwnUUID(not))
	}
}

func TestIdentity(t *testing.T) {
	wwid := Identity{ID: "x", Boot: "b", Sequence: 1}
	require.True(t, wwid.IsSame(Identity{ID: "x", Boot: "c", Sequence: 9}))
	require.False(t, wwid.IsSame(Identity{ID: "y", Boot: "b", Sequence: 1}))
	require.False(t, wwid.IsSame(Identity{ID: "x", Part: "1@2048"}))
	require.False(t, wwid.IsSame(Identity{ID: "x", Boot: "b", Sequence: 2}), "another medium in the same place")
	slot := Identity{ID: "serial:x", Boot: "b", Sequence: 1}
	require.True(t, slot.IsSame(Identity{ID: "serial:x", Boot: "b", Sequence: 1}))
	require.False(t, slot.IsSame(Identity{ID: "serial:x", Boot: "c", Sequence: 1}), "of a slot, perhaps")
	require.True(t, wwid.MayOverlap(Identity{ID: "x", Part: "1@2048"}))
	require.False(t, Identity{Part: "2@4096"}.MayOverlap(Identity{Part: "1@2048"}))
	require.False(t, wwid.MayOverlap(Identity{Boot: "b", Sequence: 2}))
	require.False(t, wwid.MayOverlap(Identity{ID: "y"}))
	require.False(t, Identity{}.IsSame(Identity{}), "nothing is known")
	require.False(t, wwid.HasOtherID(Identity{}), "nothing is known")
}

func TestArguments(t *testing.T) {
	const id = "00112233-4455-8677-8899-aabbccddeeff"
	for _, test := range []struct {
		fsType  string
		options []string
		want    []string
	}{
		{"ext4", nil, []string{"-F", "-m0", "-U", id, "-E", "nodiscard", inherited}},
		{"ext4", []string{"-m", "1", "-E", "lazy_itable_init=0", "-Estride=4"},
			[]string{"-F", "-m0", "-m", "1", "-U", id, "-E", "lazy_itable_init=0,stride=4,nodiscard", inherited}},
		{"xfs", []string{"-i", "size=512"}, []string{"-f", "-i", "size=512", "-m", "uuid=" + id, inherited}},
		{"btrfs", nil, []string{"-U", id, inherited}},
	} {
		f := Format{FSType: test.fsType, Options: test.options, UUID: id}
		require.Equal(t, test.want, f.arguments())
	}
}

func FuzzMarker(f *testing.F) {
	f.Add(markerOf(NewUUID()))
	f.Add([]byte(markerPrefix))
	f.Fuzz(func(t *testing.T, sector []byte) {
		uuid, err := readMarker(bytesAt(sector))
		if err == nil && uuid != "" && string(markerOf(uuid)) != string(sector[:markerSize]) {
			t.Error("not the marker that was written")
		}
	})
}

// bytesAt is a device that begins with some bytes.
type bytesAt []byte

// ReadAt implements io.ReaderAt.
func (b bytesAt) ReadAt(into []byte, at int64) (int, error) {
	n := copy(into, b[min(at, int64(len(b))):])
	if n < len(into) {
		return n, io.EOF
	}
	return n, nil
}
