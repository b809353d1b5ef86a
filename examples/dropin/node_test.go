package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk/disktest"
	"github.com/volumekit/volumekit/mount/mountutils"
	peer "k8s.io/mount-utils"
)

// A fixture is the driver as its tests had it before: on the FakeMounter. Disks in memory have replaced the FakeExec.
type fixture struct {
	*node
	fake                  *peer.FakeMounter
	disk, staging, target string
}

func newFixture(t *testing.T, machine *disktest.Machine) fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	fake := peer.NewFakeMounter(nil)
	mounter := mountutils.NewSafeFormatAndMount(fake, machine.Disks(nil))
	f := fixture{&node{mounter}, fake, filepath.Join(dir, "disk"), filepath.Join(dir, "staging"), filepath.Join(dir, "target")}
	require.NoError(t, os.Mkdir(f.disk, 0o755))
	return f
}

// TestDirectory: a directory is staged and published by bind mounts; all calls can be repeated.
func TestDirectory(t *testing.T) {
	f := newFixture(t, disktest.NewMachine())
	for range 2 {
		require.NoError(t, f.stage(f.disk, f.staging, "", []string{"noexec"}))
		require.NoError(t, f.publish(f.staging, f.target, true))
	}
	require.Equal(t, []peer.MountPoint{
		{Device: f.disk, Path: f.staging, Opts: []string{"bind", "noexec"}},
		{Device: f.disk, Path: f.target, Opts: []string{"bind", "ro"}},
	}, f.fake.MountPoints)
	require.ErrorIs(t, f.unstage(f.staging), errInUse)
	require.NoError(t, f.unpublish(f.target))
	require.NoDirExists(t, f.target)
	require.NoError(t, f.unstage(f.staging))
	require.Empty(t, f.fake.MountPoints)
	require.DirExists(t, f.disk)
}

// TestDevice: a device is formatted at the first staging, and checked at later ones.
func TestDevice(t *testing.T) {
	machine := disktest.NewMachine()
	machine.AddDisk("/dev/sdz", 1<<30)
	f := newFixture(t, machine)
	for range 2 {
		require.NoError(t, f.stage("/dev/sdz", f.staging, "ext4", nil))
	}
	require.Len(t, machine.Commands(), 1)
	require.Contains(t, machine.Commands()[0], "mkfs.ext4 ")
	require.Equal(t, []peer.MountPoint{{Device: "/dev/sdz", Path: f.staging, Type: "ext4", Opts: []string{}}}, f.fake.MountPoints)
	require.NoError(t, f.unstage(f.staging))
	require.NoError(t, f.stage("/dev/sdz", f.staging, "ext4", nil))
	require.Contains(t, machine.Commands()[1], "fsck.ext4 ", "checked, and not formatted")
}

// TestCorrupted: staging replaces a mount of a server that has gone.
func TestCorrupted(t *testing.T) {
	f := newFixture(t, disktest.NewMachine())
	require.NoError(t, os.Mkdir(f.staging, 0o755))
	f.fake.MountCheckErrors = map[string]error{f.staging: &os.PathError{Op: "stat", Path: f.staging, Err: syscall.ESTALE}}
	require.NoError(t, f.stage(f.disk, f.staging, "", nil))
	require.Len(t, f.fake.MountPoints, 1)
}
