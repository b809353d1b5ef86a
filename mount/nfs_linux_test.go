package mount_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount"
	"golang.org/x/sys/unix"
)

// An nfsClient mounts from an NFS server in the same kernel, without a helper.
type nfsClient struct {
	*testing.T
	*mount.Mounter
	tier   mount.Tier
	target string
}

// onEachTierNFS runs a test on each tier, in the mount namespace of the machine: NFS tests run in
// a guest kernel.
func onEachTierNFS(t *testing.T, test func(c nfsClient)) {
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			dir := mkdirs(t, "target")
			m := mount.New(mount.Config{Tier: tier, StagingDir: dir + "/staging", Helpers: []string{}})
			test(nfsClient{t, m, tier, dir + "/target"})
		})
	}
}

func (c nfsClient) request(source string, options ...string) mount.Request {
	return mount.Request{Source: source, Target: c.target, FSType: "nfs", Options: options}
}

// longContext returns a context for calls that wait for the server, or for name resolution.
func (c nfsClient) longContext() context.Context {
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
	c.Cleanup(cancel)
	return ctx
}

func TestNFS(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.Start(t, dir)
	require.NoError(t, os.Mkdir(dir+"/inside", 0o755))
	onEachTierNFS(t, func(c nfsClient) {
		byName := strings.Replace(server.Source(dir), server.Address, "localhost", 1)
		for version, req := range map[string]mount.Request{
			"4.2": c.request(server.Source(dir), "ro", "hard"),
			"4.1": c.request(server.Source(dir), "vers=4.1", "timeo=100"),
			"4.0": c.request(byName, "nfsvers=4.0"),
		} {
			for range 2 {
				require.NoError(c, c.Mount(c.longContext(), req))
			}
			table, err := c.List(c.Context())
			require.NoError(c, err)
			at, ok := mount.Table(table).At(c.target)
			require.True(c, ok)
			require.Equal(c, "nfs4", at.FSType)
			require.Equal(c, req.Source, at.Source)
			require.Contains(c, at.SuperOptions, "vers="+version)
			require.Equal(c, req.Options[0] == "ro", at.Flags&mount.ReadOnly != 0)
			require.NotZero(c, at.Flags&mount.NoSUID)
			require.NotZero(c, at.Flags&mount.NoDev)
			require.DirExists(c, c.target+"/inside")
			require.NoError(c, c.Unmount(c.longContext(), c.target))
			require.False(c, isMountPoint(c.T, c.target))
		}
	})
}

// TestNFSRemovedDirectory: a directory that is mounted is removed by another mount of this machine. No lookup enters the mount
// then, but the calls that need the mount table alone work as before, also while the server does not answer.
func TestNFSRemovedDirectory(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.Start(t, dir)
	onEachTierNFS(t, func(c nfsClient) {
		parent := c.target + "-of-parent"
		require.NoError(c, os.Mkdir(parent, 0o755))
		require.NoError(c, c.Mount(c.longContext(), mount.Request{Source: server.Source(dir), Target: parent, FSType: "nfs"}))
		with := func(last mount.UnmountStep) *mount.Mounter {
			return mount.New(mount.Config{Tier: c.tier, Unmount: mount.UnmountPolicy{Last: last, Grace: time.Millisecond}})
		}
		plain, quarantine := with(mount.UnmountPlain), with(mount.UnmountQuarantine)
		for _, unmount := range []func(*mount.Mounter, context.Context, string) error{(*mount.Mounter).Unmount, (*mount.Mounter).UnmountTree} {
			for _, answers := range []bool{true, false} {
				for _, inUse := range []bool{true, false} {
					file := c.mountRemoved(server.Source(dir), parent)
					if !answers {
						require.NoError(c, server.LinkDown())
					}
					c.requireRemoved(server.Source(dir + "/removed"))
					require.ErrorIs(c, unmount(plain, c.longContext(), c.target), mount.ErrNotAnswering)
					if inUse {
						require.NoError(c, unmount(quarantine, c.longContext(), c.target))
					} else {
						require.NoError(c, file.Close())
						require.NoError(c, unmount(plain, c.longContext(), c.target))
					}
					require.False(c, isMountPoint(c.T, c.target))
					require.NoError(c, server.LinkUp())
					file.Close()
				}
			}
		}
		require.NoError(c, c.Unmount(c.longContext(), parent))
	})
}

// mountRemoved mounts a directory, opens it, and removes it through the mount of its parent.
func (c nfsClient) mountRemoved(source, parent string) *os.File {
	require.NoError(c, os.Mkdir(parent+"/removed", 0o755))
	require.NoError(c, c.Mount(c.longContext(), c.request(source+"/removed")))
	file, err := os.Open(c.target)
	require.NoError(c, err)
	require.NoError(c, os.Remove(parent+"/removed"))
	_, err = os.Lstat(c.target)
	require.ErrorIs(c, err, syscall.ESTALE)
	is, err := c.IsMountPoint(context.Background(), c.target) // without an end
	require.NoError(c, err)
	require.True(c, is)
	return file
}

// requireRemoved requires the answers of calls about the target, whose directory was removed, within seconds.
func (c nfsClient) requireRemoved(source string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	below, err := c.IsMountPoint(ctx, c.target+"/below")
	require.False(c, below)
	require.ErrorIs(c, err, syscall.ESTALE)
	for _, p := range []string{c.target, c.target + "/below"} {
		resolved, err := c.FollowLinks(ctx, p)
		require.NoError(c, err)
		require.Equal(c, p, resolved)
	}
	_, err = c.IsMountPoint(ctx, c.target+"-missing")
	require.ErrorIs(c, err, fs.ErrNotExist)
	is, err := c.IsMountPoint(ctx, c.target)
	require.NoError(c, err)
	require.True(c, is)
	refs, err := c.MountRefs(ctx, c.target)
	require.NoError(c, err)
	require.Empty(c, refs)
	place, err := c.Resolve(ctx, c.target)
	require.NoError(c, err)
	require.Equal(c, c.target, place.Mount.Mountpoint)
	require.Equal(c, source, place.Mount.Source)
	id, err := c.MountID(ctx, c.target)
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(c, err)
		require.NotZero(c, id)
	}
	require.ErrorIs(c, c.Isolate(ctx, c.target), syscall.ESTALE)
}

// TestNFSRevokedParent: a mount inside a mount of NFS whose export is revoked is not stale.
func TestNFSRevokedParent(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.Start(t, dir, t.TempDir())
	require.NoError(t, os.Mkdir(dir+"/inside", 0o755))
	onEachTierNFS(t, func(c nfsClient) {
		require.NoError(c, c.Mount(c.longContext(), c.request(server.Source(dir), "actimeo=0")))
		require.NoError(c, c.Mount(c.longContext(), mount.Request{Target: c.target + "/inside", FSType: "tmpfs"}))
		require.NoError(c, server.Revoke(dir))
		require.Eventually(c, func() bool {
			_, err := os.Lstat(c.target + "/inside")
			return errors.Is(err, syscall.ESTALE)
		}, time.Minute, time.Millisecond)
		for _, ctx := range []context.Context{context.Background(), c.longContext()} {
			_, err := c.IsMountPoint(ctx, c.target+"/inside")
			require.ErrorIs(c, err, syscall.ESTALE)
			require.ErrorIs(c, c.Unmount(ctx, c.target+"/inside"), syscall.ESTALE)
		}
		require.NoError(c, server.Export(nfsserver.Export{Dir: dir}))
		require.NoError(c, c.Unmount(c.longContext(), c.target+"/inside"))
		require.NoError(c, c.Unmount(c.longContext(), c.target))
	})
}

func TestNFSRefused(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.Start(t, dir)
	onEachTierNFS(t, func(c nfsClient) {
		require.ErrorIs(c, c.Mount(c.longContext(), c.request(server.Source(dir+"/none"))), unix.ENOENT)
		require.ErrorAs(c, c.Mount(c.longContext(), c.request("nowhere")), new(*mount.InputError))
		require.ErrorContains(c, c.Mount(c.longContext(), c.request("no-such-host.invalid:/x")), "no-such-host.invalid")
		require.False(c, isMountPoint(c.T, c.target))
	})
	require.NoError(t, server.Stop())
	onEachTierNFS(t, func(c nfsClient) {
		require.ErrorIs(c, c.Mount(c.longContext(), c.request(server.Source(dir))), unix.ECONNREFUSED)
		require.False(c, isMountPoint(c.T, c.target))
	})
}

// TestNFSHangs: Mount returns with its context if the server does not answer. The abandoned call
// leaves no mount when the server answers again.
func TestNFSHangs(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.Start(t, dir)
	onEachTierNFS(t, func(c nfsClient) {
		require.NoError(c, server.LinkDown())
		ctx, cancel := context.WithTimeout(c.Context(), 100*time.Millisecond)
		defer cancel()
		err := c.Mount(ctx, c.request(server.Source(dir)))
		require.ErrorIs(c, err, context.DeadlineExceeded)
		require.NotErrorIs(c, err, mount.ErrUncertain)
		require.NoError(c, server.LinkUp())
		// This call waits for the abandoned one.
		require.NoError(c, c.Mount(c.longContext(), c.request(server.Source(dir), "noexec")))
		table, err := c.List(c.Context())
		require.NoError(c, err)
		at, ok := mount.Table(table).At(c.target)
		require.True(c, ok)
		require.NotZero(c, at.Flags&mount.NoExec)
		require.NoError(c, c.Unmount(c.longContext(), c.target))
		require.False(c, isMountPoint(c.T, c.target))
	})
}
