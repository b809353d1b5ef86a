package mountutils_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	"golang.org/x/sys/unix"
	peer "k8s.io/mount-utils"
)

// mkfs.xfs and mkfs.btrfs refuse smaller devices.
const (
	small = 320 << 20
	large = 448 << 20
)

// TestVolumeLifeCycle formats, mounts, publishes, unmounts and mounts a device again.
func TestVolumeLifeCycle(t *testing.T) { onEachType(t, testDisk.testLifeCycle) }

// TestGrowMounted: a volume is grown while it is in use.
func TestGrowMounted(t *testing.T) { onEachType(t, testDisk.testGrow) }

func onEachType(t *testing.T, test func(testDisk)) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) { onType(t, fsType, test) })
	}
}

func onType(t *testing.T, fsType string, test func(testDisk)) {
	if mounttest.RootNamespace(t) {
		test(newDisk(t, fsType))
	}
}

// A testDisk is a loop device with its mount points.
type testDisk struct {
	*testing.T
	mounter               *mountutils.SafeFormatAndMount
	disks                 *disk.Disks
	fsType, image, device string
	staging, publish      string
}

func newDisk(t *testing.T, fsType string) testDisk {
	t.Helper()
	for _, program := range []string{"mkfs." + fsType, "losetup"} {
		if _, err := exec.LookPath(program); err != nil {
			mounttest.SkipWithout(t, fsType, err)
		}
	}
	dir := newTree(t)
	d := testDisk{
		T: t, fsType: fsType, image: filepath.Join(dir, "image"),
		staging: filepath.Join(dir, "target"), publish: filepath.Join(dir, "other"),
	}
	config := mount.Config{StagingDir: filepath.Join(dir, "staging")}
	mounter := mount.New(config)
	d.disks = disk.New(disk.Config{Mounter: mounter})
	d.mounter = mountutils.NewSafeFormatAndMount(mountutils.New(mounter), d.disks)
	testbed.Image(t, d.image, small)
	d.device = testbed.Loop(t, d.image)
	t.Cleanup(func() { // frees the device of a failed test
		_ = unix.Unmount(d.publish, unix.MNT_DETACH)
		_ = unix.Unmount(d.staging, unix.MNT_DETACH)
	})
	return d
}

func (d testDisk) testLifeCycle() {
	unformatted := peer.MountError{}
	require.ErrorAs(d, d.mounter.FormatAndMount(d.device, d.staging, d.fsType, []string{"ro"}), &unformatted)
	require.Equal(d, peer.UnformattedReadOnly, unformatted.Type)
	d.requireFormat("noatime", "_netdev")
	require.NoError(d, d.mounter.FormatAndMount(d.device, d.staging, d.fsType, []string{"noatime", "_netdev"}), "FormatAndMount is idempotent")
	file := filepath.Join(d.staging, "file")
	require.NoError(d, os.WriteFile(file, []byte("text"), 0o600))

	require.NoError(d, d.mounter.Mount(d.staging, d.publish, d.fsType, []string{"bind", "ro"}))
	require.ErrorIs(d, os.WriteFile(filepath.Join(d.publish, "file"), nil, 0o600), unix.EROFS)
	device, count, err := peer.GetDeviceNameFromMount(d.mounter, d.publish)
	require.NoError(d, err)
	require.Equal(d, d.device, device)
	require.Equal(d, 2, count)
	refs, err := d.mounter.GetMountRefs(d.staging)
	require.NoError(d, err)
	require.Equal(d, []string{d.publish}, refs)
	require.NoError(d, peer.CleanupMountPoint(d.publish, d.mounter, true))
	require.NoDirExists(d, d.publish)

	require.NoError(d, d.mounter.Unmount(d.staging))
	d.requireUnmounted(d.staging)
	require.NoError(d, d.mounter.FormatAndMount(d.device, d.staging, d.fsType, nil), "an existing file system is kept")
	text, err := os.ReadFile(file)
	require.NoError(d, err)
	require.Equal(d, "text", string(text))
	force, ok := d.mounter.Interface.(peer.MounterForceUnmounter)
	require.True(d, ok)
	require.NoError(d, peer.CleanupMountWithForce(d.staging, force, false, time.Minute))
	require.NoDirExists(d, d.staging)
}

// requireFormat formats the device if it is blank, and mounts it.
func (d testDisk) requireFormat(options ...string) {
	d.Helper()
	err := d.mounter.FormatAndMount(d.device, d.staging, d.fsType, options)
	if err != nil && strings.Contains(err.Error(), unix.ENODEV.Error()) {
		mounttest.SkipWithout(d.T, d.fsType, err) // the kernel lacks it
	}
	require.NoError(d, err)
	d.requireMounted(d.staging)
}

func (d testDisk) requireMounted(path string) {
	d.Helper()
	likelyNot, err := d.mounter.IsLikelyNotMountPoint(path)
	require.NoError(d, err)
	require.False(d, likelyNot)
}

func (d testDisk) requireUnmounted(path string) {
	d.Helper()
	likelyNot, err := d.mounter.IsLikelyNotMountPoint(path)
	require.NoError(d, err)
	require.True(d, likelyNot)
}

// testGrow makes the device larger, and then the file system that is mounted from it.
func (d testDisk) testGrow() {
	d.requireFormat()
	before := d.size()
	require.NoError(d, os.Truncate(d.image, large))
	require.NoError(d, exec.Command("losetup", "--set-capacity", d.device).Run())
	resizer := mountutils.NewResizeFs(d.Context(), d.disks)
	needed, err := resizer.NeedResize(d.device, d.staging)
	require.NoError(d, err)
	require.True(d, needed)
	grown, err := resizer.Resize(d.device, d.staging)
	if d.fsType == "ext4" && err != nil && strings.Contains(err.Error(), "Permission denied") {
		// Some kernels do not permit growing a mounted ext4.
		mounttest.SkipWithout(d.T, "growext4", err)
	}
	require.NoError(d, err)
	require.True(d, grown)
	require.Greater(d, d.size(), before)
	require.LessOrEqual(d, d.size(), uint64(large))
	require.NoError(d, d.mounter.Unmount(d.staging))
}

// size returns how many bytes the file system has.
func (d testDisk) size() uint64 {
	d.Helper()
	var stat unix.Statfs_t
	require.NoError(d, unix.Statfs(d.staging, &stat))
	return stat.Blocks * uint64(stat.Bsize)
}
