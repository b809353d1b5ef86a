package nfsserver_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"golang.org/x/sys/unix"
)

func TestNFSReadOnly(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.Serve(t, nfsserver.Export{Dir: dir, ReadOnly: true})
	for _, version := range versions {
		target := oldMount(t, server.Source(dir), server.Options(version))
		require.ErrorIs(t, os.Mkdir(target+"/"+version, 0o755), unix.EROFS)
	}
	require.NoError(t, server.Export(nfsserver.Export{Dir: dir}))
	requireShared(t, dir, oldMount(t, server.Source(dir), server.Options("4.2")))
}

func TestNFSSquashRoot(t *testing.T) {
	open, closed := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chmod(open, 0o777))
	require.NoError(t, os.Chmod(closed, 0o755))
	server := nfsserver.Serve(t, nfsserver.Export{Dir: open, SquashRoot: true}, nfsserver.Export{Dir: closed, SquashRoot: true})
	for _, version := range versions {
		require.NoError(t, os.Mkdir(oldMount(t, server.Source(open), server.Options(version))+"/"+version, 0o755))
		info, err := os.Stat(open + "/" + version)
		require.NoError(t, err)
		require.EqualValues(t, nfsserver.AnonymousID, info.Sys().(*syscall.Stat_t).Uid)
		target := oldMount(t, server.Source(closed), server.Options(version))
		require.ErrorIs(t, os.Mkdir(target+"/"+version, 0o755), unix.EACCES)
	}
}

// TestNFSStale checks that a mount is stale after its export was revoked or replaced, also
// if that happened while the server was stopped.
func TestNFSStale(t *testing.T) {
	for name, change := range map[string]func(*nfsserver.Server, string) error{
		"revoke":  (*nfsserver.Server).Revoke,
		"replace": (*nfsserver.Server).Replace,
		"while stopped": func(s *nfsserver.Server, dir string) error {
			if err := s.Stop(); err != nil {
				return err
			}
			if err := s.Replace(dir); err != nil {
				return err
			}
			return s.Start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, other := t.TempDir(), t.TempDir()
			server := nfsserver.Start(t, dir, other)
			stays := oldMount(t, server.Source(other), server.Options("4.2")+",noac")
			targets := map[string]string{}
			t.Cleanup(func() {
				for _, target := range targets {
					_ = unix.Unmount(target, unix.MNT_DETACH)
				}
			})
			for _, version := range versions {
				targets[version] = t.TempDir()
				require.NoError(t, unix.Mount(server.Source(dir), targets[version], "nfs4", 0, server.Options(version)+",noac"))
				require.NoError(t, os.WriteFile(targets[version]+"/"+version, nil, 0o600))
			}
			require.NoError(t, change(server, dir))
			for version, target := range targets {
				_, err := os.Stat(target + "/" + version)
				require.ErrorIs(t, err, unix.ESTALE, version)
			}
			requireShared(t, other, stays)
			if name == "revoke" {
				require.Error(t, server.Replace(dir))
				require.NoError(t, server.Export(nfsserver.Export{Dir: dir}))
			}
			for _, target := range targets {
				require.NoError(t, unix.Unmount(target, 0))
			}
			requireShared(t, dir, oldMount(t, server.Source(dir), server.Options("4.2")))
		})
	}
}
