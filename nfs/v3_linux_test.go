package nfs_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
)

// TestNFSv3 checks that version 3 requires mount.nfs, or the options that mount.nfs would
// find out; without either the error names the program.
func TestNFSv3(t *testing.T) {
	export := t.TempDir()
	n := &node{T: t, export: export, server: nfsserver.StartV3(t, export)}
	var alone []string
	for option := range strings.SplitSeq(n.server.Options("3"), ",") {
		if !strings.HasPrefix(option, "addr=") {
			alone = append(alone, option)
		}
	}
	n.on(t.TempDir(), nfs.Config{})
	require.Contains(t, n.setUp(n.pv(export, alone...), "1").SuperOptions, "vers=3")
	n.tearDown(n.pv(export), "1")
	program := n.pv(export, "vers=3", "nolock", "proto=tcp")
	err := n.mounter(program, "1").SetUp(n.patientContext(), volume.MounterArgs{})
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "mount.nfs")
	require.Equal(t, volume.Final, volume.KindOf(err))

	helpers := []string{nfsserver.Helper(t)}
	dir := t.TempDir()
	mounter := mount.New(mount.Config{StagingDir: dir + "/staging", Helpers: helpers})
	for _, c := range []nfs.Config{{}, {OneMountPerExport: true}, {Transport: nfs.Helper}} {
		c.Mounter = mounter
		n.mounts, n.plugin = mounter, nfs.New(c)
		require.NoError(t, n.plugin.Init(t.Context(), n.host))
		at := n.setUp(program, "2")
		require.Equal(t, n.server.Source(export), at.Source)
		require.Contains(t, at.SuperOptions, "vers=3")
		found, err := n.plugin.ConstructVolumeSpec(t.Context(), program.Name(), at.Mountpoint)
		require.NoError(t, err)
		require.Contains(t, found.Spec.MountOptions(), "vers=3")
		n.tearDown(program, "2")
		require.Empty(t, n.mountsBelowRoot())
	}
}
