package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// TestRevokedClaim: work whose caller has given up unmounts nothing, however far
// it had come.
func TestRevokedClaim(t *testing.T) {
	for _, tier := range Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			if inNamespace(t) {
				testRevokedClaim(t, tier)
			}
		})
	}
}

func testRevokedClaim(t *testing.T, tier Tier) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"/source", "/target"} {
		require.NoError(t, os.Mkdir(dir+name, 0o755))
	}
	m := New(Config{Tier: tier, StagingDir: dir + "/staging"})
	revoked := new(claim)
	require.True(t, revoked.revoke())
	for _, req := range []Request{
		{Source: dir + "/source", Target: dir + "/target"},
		{Source: "tmpfs", Target: dir + "/target", FSType: "tmpfs"},
	} {
		require.NoError(t, m.Mount(t.Context(), req))
		require.ErrorIs(t, m.unmount(t.Context(), revoked, req.Target), errAbandoned)
		is, err := isMountPoint(req.Target)
		require.NoError(t, err)
		require.True(t, is)
		require.NoError(t, m.Unmount(t.Context(), req.Target))
	}
}

// TestUmountFollowsNoLink: should a link take the place of a mount point after
// the look at it, what it leads to stays mounted.
func TestUmountFollowsNoLink(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	target := dir + "/target"
	require.NoError(t, os.Mkdir(target, 0o755))
	require.NoError(t, os.Symlink(target, dir+"/link"))
	m := New(Config{})
	require.NoError(t, m.Mount(t.Context(), Request{Target: target, FSType: "tmpfs"}))
	parent, err := safepath.Open(unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	require.NoError(t, err)
	defer closeFD(parent)
	require.NoError(t, umountAt(parent, "link"), "it is no mount point")
	is, err := isMountPoint(target)
	require.NoError(t, err)
	require.True(t, is)
	require.NoError(t, m.Unmount(t.Context(), target))
}

func TestRedact(t *testing.T) {
	req := Request{Secrets: []Secret{NewSecret("password=hunter2"), NewSecret("token"), {}}}
	require.Equal(t, "bad value [redacted] of password, [redacted], [redacted]",
		req.redact("bad value hunter2 of password, password=hunter2, token"))
}
