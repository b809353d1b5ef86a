package mountutils_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	"golang.org/x/sys/unix"
	peer "k8s.io/mount-utils"
)

// newKernelMounter returns a mounter on the kernel, in the namespace of a test.
func newKernelMounter(t *testing.T, allow mount.Allow, options ...mountutils.Option) (peer.MounterForceUnmounter, string) {
	t.Helper()
	dir := newTree(t)
	m := mountutils.New(mount.New(mount.Config{Allow: allow, StagingDir: filepath.Join(dir, "staging")}), options...)
	t.Cleanup(func() {
		points, err := m.List()
		require.NoError(t, err)
		for _, point := range slices.Backward(points) {
			if len(point.Path) > len(dir) && point.Path[:len(dir)] == dir {
				_ = unix.Unmount(point.Path, unix.MNT_DETACH)
			}
		}
	})
	return m, dir
}

// TestRemount: a remount changes the flags of an existing mount alone.
func TestRemount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m, dir := newKernelMounter(t, mount.Allow{})
	source, target := dir+"/source", dir+"/target"
	remount := []string{"bind", "remount", "ro", "nfsvers=4.1"}
	require.ErrorIs(t, m.Mount(source, target, "", remount), mount.ErrNotMounted)
	require.NoError(t, m.Mount(source, target, "", []string{"bind"}))
	require.NoError(t, os.WriteFile(target+"/file", nil, 0o600))
	require.NoError(t, m.Mount(source, target, "", remount))
	require.ErrorIs(t, os.WriteFile(target+"/file", nil, 0o600), unix.EROFS)
	require.NoError(t, os.WriteFile(source+"/file", nil, 0o600), "the source keeps its flags")
	require.NoError(t, m.Mount("", target, "", []string{"remount", "rw"}))
	require.NoError(t, os.WriteFile(target+"/file", nil, 0o600))
}

func TestSubmountsAndPropagation(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m, dir := newKernelMounter(t, mount.Allow{})
	require.NoError(t, m.Mount("x", dir+"/source/sub", "tmpfs", []string{"size=1m"}))
	require.NoError(t, os.WriteFile(dir+"/source/sub/inside", nil, 0o600))

	require.NoError(t, m.Mount(dir+"/source", dir+"/target", "", []string{"rbind", "ro"}))
	require.FileExists(t, dir+"/target/sub/inside")
	require.ErrorIs(t, os.WriteFile(dir+"/target/sub/inside", nil, 0o600), unix.EROFS, "submounts are read-only")
	require.NoError(t, m.Unmount(dir+"/target/sub"))
	require.NoError(t, m.Unmount(dir+"/target"))

	tmpfs := mount.New(mount.Config{})
	require.NoError(t, m.Mount("x", dir+"/other", "tmpfs", []string{"rshared"}))
	require.NoError(t, os.MkdirAll(dir+"/other/a/b", 0o755))
	for option, prefix := range map[string]string{"bind": "", "bind,rshared": "shared:", "bind,rslave": "master:"} {
		require.NoError(t, m.Mount(dir+"/other/a", dir+"/target", "", []string{option}))
		table, err := tmpfs.List(t.Context())
		require.NoError(t, err)
		at, ok := mount.Table(table).At(dir + "/target")
		require.True(t, ok)
		if prefix == "" {
			require.Empty(t, at.Tags)
		} else {
			require.Contains(t, at.Tags[0], prefix)
		}
		require.NoError(t, m.Unmount(dir+"/target"))
	}
}

// TestBindHidesSubmounts: "bind" omits the submounts of the source, as with mount(8).
func TestBindHidesSubmounts(t *testing.T) {
	if !mounttest.RootNamespace(t) { // a user namespace cannot uncover inherited mounts
		return
	}
	m, dir := newKernelMounter(t, mount.Allow{})
	require.NoError(t, m.Mount("x", dir+"/source/sub", "tmpfs", nil))
	require.NoError(t, os.WriteFile(dir+"/source/sub/inside", nil, 0o600))
	require.NoError(t, m.Mount(dir+"/source", dir+"/target", "", []string{"bind"}))
	require.NoFileExists(t, dir+"/target/sub/inside")
}

// TestDeviceFile: a block volume is a device file that is bound to a file, and usable there without
// mount.Config.Allow; device files of a file system are not.
func TestDeviceFile(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	m, dir := newKernelMounter(t, mount.Allow{})
	testbed.Image(t, dir+"/image", 1<<20)
	device := testbed.Loop(t, dir+"/image")
	require.NoError(t, os.Symlink(device, dir+"/by-id"))
	for range 2 { // a call may be repeated
		require.NoError(t, m.Mount(dir+"/by-id", dir+"/target-file", "", []string{"bind", "noatime"}))
		require.NoError(t, m.Mount(device, dir+"/target-file", "", []string{"bind", "noatime"}))
	}
	require.NoError(t, os.WriteFile(dir+"/target-file", []byte("text"), 0o600))
	got, err := os.ReadFile(device)
	require.NoError(t, err)
	require.Equal(t, "text", string(got[:4]))
	require.NoError(t, m.Unmount(dir+"/target-file"))
	require.NoError(t, m.Mount(device, dir+"/target-file", "", []string{"bind", "nodev"}))
	_, err = os.ReadFile(dir + "/target-file")
	require.ErrorIs(t, err, unix.EACCES, "as requested")
	require.NoError(t, m.Unmount(dir+"/target-file"))

	strict, _ := newKernelMounter(t, mount.Allow{}, mountutils.WithoutDeviceFiles())
	require.ErrorAs(t, strict.Mount(device, dir+"/target-file", "", []string{"bind"}), new(*mount.InputError))

	require.NoError(t, m.Mount("x", dir+"/source", "tmpfs", nil))
	const zero = 1<<8 | 5
	require.NoError(t, unix.Mknod(dir+"/source/zero", unix.S_IFCHR|0o600, zero))
	require.NoError(t, m.Mount(dir+"/source", dir+"/target", "", []string{"bind"}))
	for _, at := range []string{"/source", "/target"} {
		_, err := os.Open(dir + at + "/zero")
		require.ErrorIs(t, err, unix.EACCES, at)
	}
}

// TestCallsOnDeadServer: no call waits for a file system that does not answer.
func TestCallsOnDeadServer(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	m, dir := newKernelMounter(t, mount.Allow{})
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		mounttest.SkipWithout(t, "fuse", err)
	}
	t.Cleanup(func() { _ = unix.Close(dev) }) // a failed test would hang otherwise
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)
	require.NoError(t, unix.Mount("dead", dir+"/target", "fuse.dead", 0, options))
	require.NoError(t, os.Symlink(dir+"/target", dir+"/link"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, path := range []string{dir + "/target", dir + "/link"} {
			likelyNot, err := m.IsLikelyNotMountPoint(path)
			assert.NoError(t, err)
			assert.False(t, likelyNot)
			is, err := m.IsMountPoint(path)
			assert.NoError(t, err)
			assert.True(t, is)
			refs, err := m.GetMountRefs(path)
			assert.NoError(t, err)
			assert.Empty(t, refs)
		}
		assert.NoError(t, m.Unmount(dir+"/link"))
		is, err := m.IsMountPoint(dir + "/target")
		assert.NoError(t, err)
		assert.False(t, is)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a call waits for the server")
	}
}

// TestMountAgainOnDeadDaemon: a driver that repeats a mount whose FUSE daemon has died learns that it is corrupted.
func TestMountAgainOnDeadDaemon(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	m, dir := newKernelMounter(t, mount.Allow{SUID: true, Dev: true})
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		mounttest.SkipWithout(t, "fuse", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)
	require.NoError(t, unix.Mount("s3", dir+"/target", "fuse.s3fs", 0, options))
	require.NoError(t, unix.Close(dev))
	err = m.Mount("s3", dir+"/target", "fuse.s3fs", nil)
	require.ErrorIs(t, err, mount.ErrCorrupted)
	require.True(t, peer.IsCorruptedMnt(err))
	require.NoError(t, m.Unmount(dir+"/target"))
}
