package local_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestReadOnlyViewOfDisk: a pod has a disk in the volume's directory, to write, and in one beside
// it, to read; both come down by their names.
func TestReadOnlyViewOfDisk(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	s := deviceSpec(r.link("disk", r.disk("disk", largeDisk)), "ext4")
	r.mountFirst(s)
	at, err := r.setUp(s, "1", volume.MounterArgs{})
	require.NoError(t, err)
	reads := *s
	reads.ReadOnly = true
	view := at + "~r"
	for range 2 {
		require.NoError(t, r.mounter(t, &reads, "1").SetUpAt(t.Context(), view, volume.MounterArgs{ReadOnly: true}))
	}
	require.NoError(t, os.WriteFile(at+"/file", []byte("text"), 0o600))
	text, err := os.ReadFile(view + "/file")
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	require.ErrorIs(t, os.WriteFile(view+"/file", nil, 0o600), unix.EROFS)

	found, err := r.plugin.ConstructVolumeSpec(t.Context(), s.Name(), view)
	require.NoError(t, err)
	require.True(t, found.Spec.IsReadOnly())
	name, err := r.plugin.GetVolumeName(found.Spec)
	require.NoError(t, err)
	want, err := r.plugin.GetVolumeName(s)
	require.NoError(t, err)
	require.Equal(t, want, name)

	u, err := r.plugin.NewUnmounter(s.Name()+"~r", "1")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(u.GetPath(), "~r"))
	require.NoError(t, u.TearDown(t.Context()))
	require.NoDirExists(t, view)
	require.FileExists(t, at+"/file")
	r.tearDown("1")
	require.NoError(t, r.unmountDevice(s))
}
