package mount_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestQuotes: fsconfig(2) receives a value without the quotes around it, mount(2) with them:
// there they keep the commas of an SELinux label together. A secret keeps its quotes.
func TestQuotes(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "target", "staging")
	target := dir + "/target"
	req := mount.Request{Source: "x", Target: target, FSType: "tmpfs", Options: []string{`mode="0711"`}}
	require.NoError(t, mount.New(mount.Config{}).Mount(t.Context(), req))
	info, err := os.Stat(target)
	require.NoError(t, err)
	require.EqualValues(t, 0o711, info.Mode().Perm())
	require.NoError(t, mount.New(mount.Config{}).Unmount(t.Context(), target))

	classic := mount.New(mount.Config{StagingDir: dir + "/staging", Tier: mount.TierClassic})
	require.ErrorIs(t, classic.Mount(t.Context(), req), unix.EINVAL)
	req.Options, req.Secrets = nil, []mount.Secret{mount.NewSecret(`mode="0711"`)}
	require.ErrorIs(t, mount.New(mount.Config{}).Mount(t.Context(), req), unix.EINVAL)
	require.False(t, isMountPoint(t, target))
}
