package mounttest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
)

// spread binds source at target with a propagation.
func (s stage) spread(source, target string, propagation mount.Propagation) {
	s.t.Helper()
	require.NoError(s.t, s.Mount(s.t.Context(), mount.Request{
		Source: s.path(source), Target: s.path(target), Propagation: propagation, Stack: true,
	}))
}

// tree describes the mounts below "/": what they show, where, and how they spread.
func (s stage) tree() []string {
	var lines []string
	for _, info := range s.table()[1:] {
		line := strings.TrimPrefix(info.Root, slashed(s.root)) + " on " + strings.TrimPrefix(info.Mountpoint, slashed(s.root))
		lines = append(lines, strings.Join(append([]string{line}, info.Tags...), " "))
	}
	return lines
}

func TestFakePropagation(t *testing.T) {
	s := newStage(t)
	s.spread("source", "source", mount.PropagationShared)
	s.spread("source", "target", mount.PropagationSlave)
	s.spread("source", "other", mount.PropagationShared)
	require.NoError(t, s.bind("file", "other/file"))
	require.Equal(t, []string{
		"/source on /source shared:1",
		"/source on /target master:1",
		"/source on /other shared:1",
		"/file on /other/file",           // private, as it was asked for,
		"/file on /source/file shared:2", // unlike
		"/file on /target/file master:2", // its copies
	}, s.tree())

	// One goes, and what it was copied to: all of them.
	require.NoError(t, s.unmount("source/file"))
	require.Len(t, s.tree(), 3)
}

// What the slave has on its own stays its own, on top of what it gets.
func TestFakeMountsSlipUnderOthers(t *testing.T) {
	s := newStage(t)
	s.spread("source", "source", mount.PropagationShared)
	s.spread("source", "target", mount.PropagationSlave)
	require.NoError(t, s.bind("other", "target/sub"))
	require.NoError(t, s.mount("tmpfs", "x", "source/sub", "ro"))
	top := s.at("target/sub")
	require.Equal(t, slashed(s.path("other")), top.Root)
	require.Len(t, s.tree(), 5)
	require.NoError(t, s.unmount("source/sub"))
	require.Len(t, s.tree(), 3)
	require.Equal(t, top.ID, s.at("target/sub").ID)
	require.Equal(t, s.at("target").ID, s.at("target/sub").Parent)
}

// A slave of a group whose last mount is gone gets mounts from where that did, or
// from nowhere.
func TestFakeSlavesSurviveTheirMasters(t *testing.T) {
	s := newStage(t)
	s.spread("source", "source", mount.PropagationShared)
	s.spread("source", "target", mount.PropagationSlave)
	s.spread("target", "target", mount.PropagationShared) // a slave and shared
	s.spread("target", "other", mount.PropagationSlave)
	require.Equal(t, []string{"shared:2", "master:1"}, s.at("target").Tags)
	require.Equal(t, []string{"master:2"}, s.at("other").Tags)
	require.NoError(t, s.unmount("target"))
	require.Equal(t, []string{"master:1"}, s.at("other").Tags)
	require.NoError(t, s.unmount("target"))
	require.NoError(t, s.unmount("source"))
	require.Empty(t, s.at("other").Tags)
}

// Mounts with others in them stay when the one that they are copies of goes.
func TestFakeCopiesInUseStay(t *testing.T) {
	s := newStage(t)
	s.spread("source", "source", mount.PropagationShared)
	s.spread("source", "target", mount.PropagationSlave)
	require.NoError(t, s.bind("source", "other")) // with a directory to mount on
	require.NoError(t, s.bind("other", "source/sub"))
	require.NoError(t, s.bind("other", "target/sub/sub"))
	require.NoError(t, s.unmount("source/sub"))
	s.at("target/sub")
	s.at("target/sub/sub")
	require.NoError(t, s.UnmountTree(t.Context(), s.path("target")))
	require.Len(t, s.tree(), 2)
}
