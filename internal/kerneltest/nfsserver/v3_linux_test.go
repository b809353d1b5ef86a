package nfsserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"golang.org/x/sys/unix"
)

// TestNFSv3: mounted without a program, and beside NFSv4.
func TestNFSv3(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.StartV3(t, dir)
	mount := func() {
		target := t.TempDir()
		require.NoError(t, unix.Mount(server.Source(dir), target, "nfs", 0, server.Options("3")))
		requireShared(t, dir, target)
		require.Contains(t, mountinfo(t, target), "vers=3,")
		require.NoError(t, unix.Unmount(target, 0))
	}
	mount()
	requireShared(t, dir, oldMount(t, server.Source(dir), server.Options("4.2")))
	require.ErrorIs(t, unix.Mount(server.Source("/none"), t.TempDir(), "nfs", 0, server.Options("3")), unix.ENOENT)
	require.NoError(t, server.Stop())
	require.NoError(t, server.Start())
	mount()
}
