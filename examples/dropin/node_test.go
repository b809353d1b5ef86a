package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	mount "k8s.io/mount-utils"
	"k8s.io/utils/exec"
	testingexec "k8s.io/utils/exec/testing"
)

// fixture is the driver as its tests had it before: on the FakeMounter.
type fixture struct {
	*node
	fake                  *mount.FakeMounter
	disk, staging, target string
}

func newFixture(t *testing.T, exec exec.Interface) fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	fake := mount.NewFakeMounter(nil)
	f := fixture{newNode(fake, exec), fake, filepath.Join(dir, "disk"), filepath.Join(dir, "staging"), filepath.Join(dir, "target")}
	require.NoError(t, os.Mkdir(f.disk, 0o755))
	return f
}

func TestDirectory(t *testing.T) {
	f := newFixture(t, nil)
	v := volume{source: f.disk, flags: []string{"noexec"}}
	for range 2 {
		require.NoError(t, f.stage(v, f.staging))
		require.NoError(t, f.publish(v, f.staging, f.target, true))
	}
	require.Equal(t, []mount.MountPoint{
		{Device: f.disk, Path: f.staging, Opts: []string{"bind", "noexec"}},
		{Device: f.disk, Path: f.target, Opts: []string{"bind", "noexec", "ro"}},
	}, f.fake.MountPoints)
	require.ErrorIs(t, f.unstage(f.staging), errInUse)
	for range 2 {
		require.NoError(t, f.remove(f.target))
		require.NoDirExists(t, f.target)
	}
	require.NoError(t, f.unstage(f.staging))
	require.Empty(t, f.fake.MountPoints)
	require.DirExists(t, f.disk)
}

func TestDevice(t *testing.T) {
	says := func(output string) testingexec.FakeCommandAction {
		return func(cmd string, args ...string) exec.Cmd {
			c := &testingexec.FakeCmd{CombinedOutputScript: []testingexec.FakeAction{
				func() ([]byte, []byte, error) { return []byte(output), nil, nil },
			}}
			return testingexec.InitFakeCmd(c, cmd, args...)
		}
	}
	programs := &testingexec.FakeExec{CommandScript: []testingexec.FakeCommandAction{
		says("TYPE=ext4\n"), // blkid
		says(""),            // fsck
	}}
	f := newFixture(t, programs)
	require.NoError(t, f.stage(volume{source: "/dev/sdz", fsType: "ext4"}, f.staging))
	require.Equal(t, 2, programs.CommandCalls)
	require.Equal(t, []mount.MountPoint{
		{Device: "/dev/sdz", Path: f.staging, Type: "ext4", Opts: []string{"defaults"}},
	}, f.fake.MountPoints)
}

func TestCorrupted(t *testing.T) {
	f := newFixture(t, nil)
	require.NoError(t, os.Mkdir(f.staging, 0o755))
	f.fake.MountCheckErrors = map[string]error{f.staging: &os.PathError{Op: "stat", Path: f.staging, Err: syscall.ESTALE}}
	require.NoError(t, f.stage(volume{source: f.disk}, f.staging))
	require.Len(t, f.fake.MountPoints, 1)
}
