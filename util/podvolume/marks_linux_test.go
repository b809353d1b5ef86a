package podvolume

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// newMarkedNode returns a node on which notes are attributes.
func newMarkedNode(t *testing.T) *dirsNode {
	t.Helper()
	n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
	if err := unix.Setxattr(n.host.Root(), markPrefix+"test", nil, 0); err != nil {
		mounttest.SkipWithout(t, "xattr", err)
	}
	return n
}

// A note that is an attribute takes no directory and no file, and is gone with the volume.
func TestPodDirsMark(t *testing.T) {
	n := newMarkedNode(t)
	want := Dir{Mode: 0o777, Record: json.RawMessage(`{"a":"b/c"}`)}
	require.NoError(t, n.SetUp(t.Context(), n.dir, want))
	require.NoDirExists(t, n.host.Root()+"/pods/uid/plugins")
	record, err := n.Find(t.Context(), n.dir)
	require.NoError(t, err)
	require.JSONEq(t, string(want.Record), string(record))
	require.NoError(t, n.TearDown(t.Context(), n.dir))
	n.requireGone(t)
	require.False(t, n.isNoted(t))
	size, err := unix.Listxattr(filepath.Dir(n.dir), make([]byte, 1024))
	require.NoError(t, err)
	require.Zero(t, size, "attributes are left")
}

// An attribute with something else in it makes the volume uncertain, and the next SetUp
// completes it.
func TestPodDirsUnsoundMark(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "torn": `{"mounted":tr`, "other": `[1]`} {
		t.Run(name, func(t *testing.T) {
			n := newMarkedNode(t)
			want := Dir{Mode: 0o750}
			require.NoError(t, n.SetUp(t.Context(), n.dir, want))
			require.NoError(t, os.WriteFile(n.dir+"/file", nil, 0o600))
			require.NoError(t, unix.Setxattr(filepath.Dir(n.dir), markPrefix+"v", []byte(text), 0))
			_, err := n.Find(t.Context(), n.dir)
			require.ErrorIs(t, err, volume.ErrUncertain)
			require.ErrorContains(t, err, n.dir)
			require.NoError(t, n.SetUp(t.Context(), n.dir, want))
			require.FileExists(t, n.dir+"/file")
			_, err = n.Find(t.Context(), n.dir)
			require.NoError(t, err)
		})
	}
}

// A volume whose note is a file, of an older process or since it is long, is up, and the
// file goes with the volume.
func TestPodDirsFileBesideMarks(t *testing.T) {
	n := newMarkedNode(t)
	want := Dir{Mode: 0o777, Record: json.RawMessage(`"` + strings.Repeat("x", longestMark) + `"`)}
	require.NoError(t, n.SetUp(t.Context(), n.dir, want))
	require.FileExists(t, n.note)
	require.NoError(t, n.SetUp(t.Context(), n.dir, want))
	record, err := n.Find(t.Context(), n.dir)
	require.NoError(t, err)
	require.Equal(t, string(want.Record), string(record))
	require.NoError(t, n.TearDown(t.Context(), n.dir))
	n.requireGone(t)
}

// Volumes of one pod have notes of their own, as many as there are.
func TestPodDirsManyMarks(t *testing.T) {
	n := newMarkedNode(t)
	dir := func(i int) string { return filepath.Dir(n.dir) + "/" + strings.Repeat("v", i+1) }
	const volumes = 40
	for i := range volumes {
		record, err := json.Marshal(strings.Repeat("x", 200+i))
		require.NoError(t, err)
		require.NoError(t, n.SetUp(t.Context(), dir(i), Dir{Mode: 0o777, Record: record}))
	}
	require.NoError(t, n.TearDown(t.Context(), dir(7)))
	for i := range volumes {
		if record, err := n.Find(t.Context(), dir(i)); i == 7 {
			require.ErrorIs(t, err, volume.ErrNotMounted)
		} else {
			require.NoError(t, err)
			require.Len(t, record, 200+i+2)
		}
	}
	for i := range volumes {
		require.NoError(t, n.TearDown(t.Context(), dir(i)))
	}
	n.requireGone(t)
}

// A volume whose mount or directory has gone is not up. An interrupted SetUp of it
// leaves it so, in spite of an earlier note.
func TestPodDirsOldNote(t *testing.T) {
	for name, test := range map[string]struct {
		want Dir
		gone func(t *testing.T, n *dirsNode)
	}{
		"mount": {Dir{Mode: 0o770 | fs.ModeSetgid, Mount: &mount.Request{Source: "tmpfs", FSType: "tmpfs"}}, func(t *testing.T, n *dirsNode) {
			require.NoError(t, n.mounts.mounter.Unmount(t.Context(), n.dir))
		}},
		"directory": {Dir{Mode: 0o770 | fs.ModeSetgid}, func(t *testing.T, n *dirsNode) {
			require.NoError(t, os.Remove(n.dir))
		}},
	} {
		for _, where := range []string{"attribute", "file"} {
			t.Run(name+"/"+where, func(t *testing.T) {
				if where == "file" {
					notesInFiles(t)
				}
				n := newMarkedNode(t)
				require.NoError(t, n.SetUp(t.Context(), n.dir, test.want))
				test.gone(t, n)
				v, err := n.podDirAt(n.dir)
				require.NoError(t, err)
				is, err := v.readState(t.Context())
				require.NoError(t, err)
				require.NoError(t, v.discardNote(t.Context(), is))
				_, err = v.make(t.Context(), is, test.want)
				require.NoError(t, err)
				_, err = n.Find(t.Context(), n.dir) // the process has ended here
				require.ErrorIs(t, err, volume.ErrUncertain)
				require.NoError(t, n.SetUp(t.Context(), n.dir, test.want))
				info, err := os.Stat(n.dir)
				require.NoError(t, err)
				require.Equal(t, fs.ModeDir|test.want.Mode, info.Mode())
			})
		}
	}
}

// A note that is a file since no attribute can hold it replaces an attribute.
func TestPodDirsFileAfterMark(t *testing.T) {
	n := newMarkedNode(t)
	require.NoError(t, n.SetUp(t.Context(), n.dir, Dir{Record: json.RawMessage(`"short"`)}))
	require.NoError(t, os.Remove(n.dir))
	want := Dir{Record: json.RawMessage(`"` + strings.Repeat("x", longestMark) + `"`)}
	require.NoError(t, n.SetUp(t.Context(), n.dir, want))
	record, err := n.Find(t.Context(), n.dir)
	require.NoError(t, err)
	require.True(t, string(want.Record) == string(record), "another record")
	require.FileExists(t, n.note)
}
