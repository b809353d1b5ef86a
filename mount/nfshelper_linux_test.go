package mount_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount"
	"golang.org/x/sys/unix"
)

// TestNFSHelper mounts by Debian's program mount.nfs.
func TestNFSHelper(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.StartV3(t, dir)
	helpers := []string{nfsserver.Helper(t)}
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			base := mkdirs(t, "target")
			m := mount.New(mount.Config{Tier: tier, StagingDir: base + "/staging", Helpers: helpers})
			c := nfsClient{t, m, mount.TierAuto, base + "/target"}
			t.Run("mounts", func(t *testing.T) { c.testHelperMount(t, server, dir) })
			t.Run("fails", func(t *testing.T) { c.testHelperFailure(t, server.Source(dir+"/none")) })
			t.Run("hangs", func(t *testing.T) { c.testHelperHang(t, dir) })
			require.False(t, isMountPoint(t, c.target))
		})
	}
}

func (c nfsClient) testHelperMount(t *testing.T, server *nfsserver.Server, dir string) {
	for _, version := range []string{"4.2", "4.0", "3"} {
		options := []string{"vers=" + version, "ro"}
		if version == "3" {
			options = append(options, "nolock", "proto=tcp", "mountproto=tcp")
		}
		req := c.request(server.Source(dir), options...)
		for range 2 {
			require.NoError(t, c.Mount(c.longContext(), req))
		}
		table, err := c.List(t.Context())
		require.NoError(t, err)
		at, ok := mount.Table(table).At(c.target)
		require.True(t, ok)
		require.Equal(t, req.Source, at.Source)
		require.Contains(t, at.SuperOptions, "vers="+version)
		require.NotZero(t, at.Flags&mount.ReadOnly)
		require.NotZero(t, at.Flags&mount.NoSUID)
		require.NoError(t, c.Unmount(c.longContext(), c.target))
		require.False(t, isMountPoint(t, c.target))
	}
}

// TestNFSv3: the kernel mounts NFSv3 without a program if the options name the port of mountd.
func TestNFSv3(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.StartV3(t, dir)
	var options []string
	for option := range strings.SplitSeq(server.Options("3"), ",") {
		if !strings.HasPrefix(option, "addr=") {
			options = append(options, option)
		}
	}
	onEachTierNFS(t, func(c nfsClient) {
		for range 2 {
			require.NoError(c, c.Mount(c.longContext(), c.request(server.Source(dir), options...)))
		}
		table, err := c.List(c.Context())
		require.NoError(c, err)
		at, ok := mount.Table(table).At(c.target)
		require.True(c, ok)
		require.Equal(c, "nfs", at.FSType)
		require.Contains(c, at.SuperOptions, "vers=3")
		require.NoError(c, c.Unmount(c.longContext(), c.target))
		require.ErrorIs(c, c.Mount(c.longContext(), c.request(server.Source(dir+"/none"), options...)), unix.ENOENT)
		require.False(c, isMountPoint(c.T, c.target))
	})
}

// testHelperFailure requires that the error holds the output of the helper.
func (c nfsClient) testHelperFailure(t *testing.T, source string) {
	err := c.Mount(c.longContext(), c.request(source, "vers=4.2"))
	var failed *mount.HelperError
	require.ErrorAs(t, err, &failed)
	require.ErrorAs(t, err, new(*exec.ExitError))
	require.Contains(t, failed.Output, "No such file or directory")
	require.False(t, isMountPoint(t, c.target))
}

// testHelperHang: the server accepts the connection and says nothing.
func (c nfsClient) testHelperHang(t *testing.T, dir string) {
	silent := nfsserver.Silent(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	returned := make(chan error, 1)
	go func() {
		returned <- c.Mount(ctx, c.request(silent.Source(dir), "vers=4.2", fmt.Sprint("port=", silent.Port)))
	}()
	select {
	case err := <-returned:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	case <-time.After(2 * time.Minute):
		t.Fatal("Mount does not return after the end of its context")
	}
	require.False(t, isMountPoint(t, c.target))
}
