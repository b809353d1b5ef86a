package mount_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestMountAgainWithoutDaemon: a repeated Mount of a FUSE file system, or of a bind mount of it, whose
// daemon has died is ErrCorrupted. While a daemon hangs it is no error, and keeps no mount busy.
func TestMountAgainWithoutDaemon(t *testing.T) {
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			dir := mkdirs(t, "fuse", "hung", "bound")
			m := mount.New(mount.Config{
				Tier: tier, Allow: mount.Allow{SUID: true, Dev: true}, StagingDir: dir + "/staging",
				Unmount: mount.UnmountPolicy{Last: mount.UnmountPlain},
			})
			defer m.Close()
			daemon := mountFUSE(t, dir+"/fuse", nil)
			requests := []mount.Request{
				{Source: "hung", Target: dir + "/fuse", FSType: "fuse.hung"},
				{Source: dir + "/fuse", Target: dir + "/bound"},
			}
			mountAll := func() (errs []error) {
				for _, req := range requests {
					errs = append(errs, m.Mount(t.Context(), req))
				}
				return errs
			}
			for range 2 {
				require.Equal(t, []error{nil, nil}, mountAll())
			}
			daemon.kill()
			requireCorrupted(t, mountAll())
			for _, req := range requests[1:] {
				require.NoError(t, m.Unmount(t.Context(), req.Target))
			}

			daemon = mountFUSE(t, dir+"/hung", nil)
			requests[0].Target, requests[1].Source = dir+"/hung", dir+"/hung"
			daemon.hang()
			for range 2 {
				require.Equal(t, []error{nil, nil}, mountAll())
				require.NoError(t, m.Unmount(t.Context(), dir+"/bound"), "the mount is not busy")
			}
			daemon.kill() // and the call in flight ends soon
			waitUntil(t, "the end of the daemon is not seen", func() bool { return m.Mount(t.Context(), requests[0]) != nil })
			require.NoError(t, m.Mount(t.Context(), requests[1]))
			requireCorrupted(t, mountAll())
		})
	}
}

func requireCorrupted(t *testing.T, errs []error) {
	t.Helper()
	for _, err := range errs {
		require.ErrorIs(t, err, mount.ErrCorrupted)
	}
}
