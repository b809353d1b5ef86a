package mounttest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
)

// bindPropagating binds source at target with a propagation.
func (s fakeTest) bindPropagating(source, target string, propagation mount.Propagation) {
	s.t.Helper()
	require.NoError(s.t, s.Mount(s.t.Context(), mount.Request{
		Source: s.path(source), Target: s.path(target), Propagation: propagation, Stack: true,
	}))
}

// describeTree describes the mounts below "/": root, mount point and propagation of each.
func (s fakeTest) describeTree() []string {
	var lines []string
	for _, info := range s.table()[1:] {
		line := strings.TrimPrefix(info.Root, tablepath.Of(s.root)) + " on " + strings.TrimPrefix(info.Mountpoint, tablepath.Of(s.root))
		lines = append(lines, strings.Join(append([]string{line}, info.Tags...), " "))
	}
	return lines
}

func TestFakePropagation(t *testing.T) {
	s := newFakeTest(t)
	s.bindPropagating("source", "source", mount.PropagationShared)
	s.bindPropagating("source", "target", mount.PropagationSlave)
	s.bindPropagating("source", "other", mount.PropagationShared)
	require.NoError(t, s.bind("file", "other/file"))
	require.Equal(t, []string{
		"/source on /source shared:1",
		"/source on /target master:1",
		"/source on /other shared:1",
		"/file on /other/file",           // private, as requested,
		"/file on /source/file shared:2", // unlike
		"/file on /target/file master:2", // its copies
	}, s.describeTree())

	// The unmount of a mount also unmounts all its propagated copies.
	require.NoError(t, s.unmount("source/file"))
	require.Len(t, s.describeTree(), 3)
}

// TestFakePropagatesBeneathMounts: a slave keeps its own mounts, on top of the mounts that it
// receives from its master.
func TestFakePropagatesBeneathMounts(t *testing.T) {
	s := newFakeTest(t)
	s.bindPropagating("source", "source", mount.PropagationShared)
	s.bindPropagating("source", "target", mount.PropagationSlave)
	require.NoError(t, s.bind("other", "target/sub"))
	require.NoError(t, s.mount("tmpfs", "x", "source/sub", "ro"))
	top := s.entryAt("target/sub")
	require.Equal(t, tablepath.Of(s.path("other")), top.Root)
	require.Len(t, s.describeTree(), 5)
	require.NoError(t, s.unmount("source/sub"))
	require.Len(t, s.describeTree(), 3)
	require.Equal(t, top.ID, s.entryAt("target/sub").ID)
	require.Equal(t, s.entryAt("target").ID, s.entryAt("target/sub").Parent)
}

// TestFakeSlavesGetNextMaster: after the last mount of a peer group is unmounted, its slaves
// receive mounts from the master of that group, if it had one.
func TestFakeSlavesGetNextMaster(t *testing.T) {
	s := newFakeTest(t)
	s.bindPropagating("source", "source", mount.PropagationShared)
	s.bindPropagating("source", "target", mount.PropagationSlave)
	s.bindPropagating("target", "target", mount.PropagationShared) // a slave and shared
	s.bindPropagating("target", "other", mount.PropagationSlave)
	require.Equal(t, []string{"shared:2", "master:1"}, s.entryAt("target").Tags)
	require.Equal(t, []string{"master:2"}, s.entryAt("other").Tags)
	require.NoError(t, s.unmount("target"))
	require.Equal(t, []string{"master:1"}, s.entryAt("other").Tags)
	require.NoError(t, s.unmount("target"))
	require.NoError(t, s.unmount("source"))
	require.Empty(t, s.entryAt("other").Tags)
}

// TestFakeCopiesInUseStay: a propagated copy with other mounts inside it stays when the
// original is unmounted.
func TestFakeCopiesInUseStay(t *testing.T) {
	s := newFakeTest(t)
	s.bindPropagating("source", "source", mount.PropagationShared)
	s.bindPropagating("source", "target", mount.PropagationSlave)
	require.NoError(t, s.bind("source", "other")) // with a directory to mount on
	require.NoError(t, s.bind("other", "source/sub"))
	require.NoError(t, s.bind("other", "target/sub/sub"))
	require.NoError(t, s.unmount("source/sub"))
	s.entryAt("target/sub")
	s.entryAt("target/sub/sub")
	require.NoError(t, s.UnmountTree(t.Context(), s.path("target")))
	require.Len(t, s.describeTree(), 2)
}
