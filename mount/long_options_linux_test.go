package mount_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestLongOptions: a request with a source or option that is too long for one mount API uses
// another one. A request that is too long for all of them is refused, not shortened.
func TestLongOptions(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "target", "staging")
	target := dir + "/target"
	m := mount.New(mount.Config{StagingDir: dir + "/staging"})
	long := "size=" + strings.Repeat("0", 300) + "64k"
	for _, req := range []mount.Request{
		{Source: strings.Repeat("x", 300), Target: target, FSType: "tmpfs", Options: []string{"mode=0711"}},
		{Source: "x", Target: target, FSType: "tmpfs", Options: []string{long, "mode=0711"}},
		{Source: "x", Target: target, FSType: "tmpfs", Options: []string{"mode=0711"}, Secrets: []mount.Secret{mount.NewSecret(long)}},
	} {
		require.NoError(t, m.Mount(t.Context(), req))
		require.NoError(t, m.Mount(t.Context(), req), "Mount is idempotent")
		info, err := os.Stat(target)
		require.NoError(t, err)
		require.EqualValues(t, 0o711, info.Mode().Perm())
		require.NoError(t, m.Unmount(t.Context(), target))
	}
	tooLong := "size=" + strings.Repeat("0", 4200) + "64k"
	classic := mount.New(mount.Config{StagingDir: dir + "/staging", Tier: mount.TierClassic})
	for _, m := range []*mount.Mounter{m, classic} {
		err := m.Mount(t.Context(), mount.Request{Source: "x", Target: target, FSType: "tmpfs", Options: []string{tooLong, "mode=0711"}})
		require.ErrorIs(t, err, unix.E2BIG)
		require.False(t, isMountPoint(t, target))
	}
}
