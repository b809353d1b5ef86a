package mount_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestErrorNamesPrivilege: a permission error names the missing privilege.
func TestErrorNamesPrivilege(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "target", "source")
	for _, tier := range mount.Tiers() {
		m := mount.New(mount.Config{Tier: tier, StagingDir: filepath.Join(dir, "staging")})
		disk := mount.Request{Source: "/dev/null", Target: dir + "/target", FSType: "ext4"}
		err := m.Mount(t.Context(), disk)
		if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOTBLK) {
			require.ErrorIs(t, err, unix.EPERM)
			require.ErrorContains(t, err, "requires CAP_SYS_ADMIN in the initial user namespace: ")
		}
		runWithoutCapabilities(t, func() {
			for _, call := range []func() error{
				func() error {
					return m.Mount(context.Background(), mount.Request{Source: dir + "/source", Target: dir + "/target"})
				},
				func() error {
					return m.Mount(context.Background(), mount.Request{Source: "x", Target: dir + "/target", FSType: "tmpfs"})
				},
			} {
				err := call()
				require.ErrorIs(t, err, fs.ErrPermission)
				require.ErrorContains(t, err, "requires CAP_SYS_ADMIN, as root or in a user namespace: ")
			}
		})
	}
}

// TestNoStagingWithoutPrivilege: without CAP_SYS_ADMIN the first EPERM is final, also that of a call which a
// system call filter may forbid: no staging directory is created.
func TestNoStagingWithoutPrivilege(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "target", "source")
	for _, tier := range append(mount.Tiers(), mount.TierAuto) {
		m := mount.New(mount.Config{Tier: tier, StagingDir: filepath.Join(dir, "staging")})
		for _, req := range []mount.Request{
			{Source: "x", Target: dir + "/target", FSType: "tmpfs"},
			{Source: dir + "/source", Target: dir + "/target"},
		} {
			runWithoutCapabilities(t, func() {
				err := m.Mount(context.Background(), req)
				require.ErrorIs(t, err, unix.EPERM)
				if tier != mount.TierClassic {
					require.NotContains(t, err.Error(), "staging")
				}
			})
			require.NoDirExists(t, dir+"/staging")
		}
	}
}

// runWithoutCapabilities runs work on a thread without capabilities. The thread ends afterwards.
func runWithoutCapabilities(t *testing.T, work func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Error(err)
			return
		}
		work()
	}()
	<-done
}
