package csi

import (
	"os"
	"path"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/internal/voldata"
)

// TestWriteState: a file in which the state alone changes is changed in place; any other is replaced.
func TestWriteState(t *testing.T) {
	n := newFakeNode(t)
	name := n.podFile("data")
	data := voldata.Data{DriverName: driverOne, VolumeHandle: "h", Call: &voldata.Call{Boot: "b"}}
	_, err := n.plugin.files.create(name, data)
	require.NoError(t, err)
	write := func(old, data voldata.Data) (same bool) {
		t.Helper()
		before, err := os.Stat(name)
		require.NoError(t, err)
		require.NoError(t, n.plugin.files.writeState(name, old, data))
		after, err := os.Stat(name)
		require.NoError(t, err)
		read, err := n.plugin.files.read(name)
		require.NoError(t, err)
		require.Equal(t, data.Call.State, read.Call.State)
		require.Equal(t, data.Call.Boot, read.Call.Boot)
		return os.SameFile(before, after)
	}
	done, later := data.WithState(voldata.Done), data
	later.Call = &voldata.Call{Boot: "later", State: voldata.Reverting}
	require.True(t, write(data, done))
	require.True(t, write(done, done))
	write(done, later)
	write(done, data) // the file has another content than expected
}

// TestRemoveTargetFile: a driver may leave an empty file at its target.
func TestRemoveTargetFile(t *testing.T) {
	n := newFakeNode(t)
	target := targetIn(path.Dir(n.podFile("data")))
	_, err := n.plugin.files.create(target.file, voldata.Data{DriverName: driverOne, VolumeHandle: "h"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(target.path, nil, 0o600))
	require.NoError(t, n.plugin.removeTarget(t.Context(), target))
	require.NoDirExists(t, path.Dir(target.file))
}

// TestIsDurable: the name of a file is synced again unless an answer of the driver, or a start of the system, shows
// that the write has ended.
func TestIsDurable(t *testing.T) {
	n := newFakeNode(t)
	for state, want := range map[voldata.State]bool{voldata.Sent: false, voldata.Reverting: false, voldata.Done: true, voldata.Failed: true} {
		require.Equal(t, want, n.plugin.isDurable(&voldata.Call{Boot: n.plugin.boot, State: state}), "%q", state)
		require.True(t, n.plugin.isDurable(&voldata.Call{Boot: "earlier", State: state}), "%q", state)
	}
}
