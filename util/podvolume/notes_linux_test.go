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
)

// newNotedNode returns a node with notes, and what a test of both kinds of notes needs.
func newNotedNode(t *testing.T, where string) (*dirsNode, *Notes) {
	t.Helper()
	if where == "attribute" {
		n := newMarkedNode(t)
		return n, NewNotes(n.mounts, dirsPlugin)
	}
	withoutMarks = true
	t.Cleanup(func() { withoutMarks = false })
	n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
	return n, NewNotes(n.mounts, dirsPlugin)
}

// TestNotes: the last note counts, however long the earlier ones were, and none is left in the end.
func TestNotes(t *testing.T) {
	for _, where := range []string{"attribute", "file"} {
		t.Run(where, func(t *testing.T) {
			n, notes := newNotedNode(t, where)
			_, err := notes.Read(t.Context(), n.dir)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.NoError(t, os.MkdirAll(n.dir, 0o750))
			for _, length := range []int{1, longestMark, 2, longestMark + 1} {
				record, err := json.Marshal(strings.Repeat("x", length))
				require.NoError(t, err)
				require.NoError(t, notes.Write(t.Context(), n.dir, record))
				require.Equal(t, where == "file" || length >= longestMark, n.hasNoteFile(t))
				found, err := notes.Read(t.Context(), n.dir)
				require.NoError(t, err)
				require.Equal(t, string(record), string(found))
			}
			for range 2 {
				require.NoError(t, notes.Remove(t.Context(), n.dir))
				_, err = notes.Read(t.Context(), n.dir)
				require.ErrorIs(t, err, fs.ErrNotExist)
			}
			require.NoDirExists(t, filepath.Dir(n.note))
		})
	}
}

func (n *dirsNode) hasNoteFile(t *testing.T) bool {
	t.Helper()
	_, err := os.Lstat(n.note)
	if err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoDirExists(t, filepath.Dir(n.note))
	}
	return err == nil
}
