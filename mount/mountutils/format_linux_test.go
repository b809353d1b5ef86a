package mountutils_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	"golang.org/x/sys/unix"
	peer "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
)

// Of mkfs.xfs and mkfs.btrfs each has a size below which it refuses to work.
const (
	small = 320 << 20
	large = 448 << 20
)

// TestFormat is the life of a volume with a file system of its own.
func TestFormat(t *testing.T) { onEachType(t, disk.live) }

// TestGrow: a volume is grown while it is in use.
func TestGrow(t *testing.T) { onEachType(t, disk.grow) }

func onEachType(t *testing.T, test func(disk)) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			if mounttest.RootNamespace(t) {
				test(newDisk(t, fsType))
			}
		})
	}
}

// A disk is a loop device, and where it is mounted.
type disk struct {
	*testing.T
	mounter               *peer.SafeFormatAndMount
	fsType, image, device string
	staging, publish      string
}

func newDisk(t *testing.T, fsType string) disk {
	t.Helper()
	for _, program := range []string{"mkfs." + fsType, "losetup", "blkid"} {
		if _, err := exec.LookPath(program); err != nil {
			mounttest.SkipWithout(t, fsType, err)
		}
	}
	dir := tree(t)
	d := disk{
		T: t, fsType: fsType, image: filepath.Join(dir, "image"),
		staging: filepath.Join(dir, "target"), publish: filepath.Join(dir, "other"),
	}
	config := mount.Config{StagingDir: filepath.Join(dir, "staging")}
	d.mounter = peer.NewSafeFormatAndMount(mountutils.New(mount.New(config)), utilexec.New())
	testbed.Image(t, d.image, small)
	d.device = testbed.Loop(t, d.image)
	t.Cleanup(func() { // or else the device stays when a test fails
		_ = unix.Unmount(d.publish, unix.MNT_DETACH)
		_ = unix.Unmount(d.staging, unix.MNT_DETACH)
	})
	return d
}

func (d disk) live() {
	require.ErrorContains(d, d.mounter.FormatAndMount(d.device, d.staging, d.fsType, []string{"ro"}), "unformatted")
	d.format("noatime", "_netdev")
	require.NoError(d, d.mounter.FormatAndMount(d.device, d.staging, d.fsType, []string{"noatime", "_netdev"}), "again")
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
	d.isMounted(d.staging, false)
	require.NoError(d, d.mounter.FormatAndMount(d.device, d.staging, d.fsType, nil), "it is checked, and not formatted")
	text, err := os.ReadFile(file)
	require.NoError(d, err)
	require.Equal(d, "text", string(text))
	force, ok := d.mounter.Interface.(peer.MounterForceUnmounter)
	require.True(d, ok)
	require.NoError(d, peer.CleanupMountWithForce(d.staging, force, false, time.Minute))
	require.NoDirExists(d, d.staging)
}

// format formats the device, if need be, and mounts it.
func (d disk) format(options ...string) {
	d.Helper()
	err := d.mounter.FormatAndMount(d.device, d.staging, d.fsType, options)
	if err != nil && strings.Contains(err.Error(), unix.ENODEV.Error()) {
		mounttest.SkipWithout(d.T, d.fsType, err) // the kernel lacks it
	}
	require.NoError(d, err)
	d.isMounted(d.staging, true)
}

func (d disk) isMounted(path string, want bool) {
	d.Helper()
	likelyNot, err := d.mounter.IsLikelyNotMountPoint(path)
	require.NoError(d, err)
	require.Equal(d, want, !likelyNot)
}

// grow makes the device larger, and then the file system that is mounted from it.
func (d disk) grow() {
	d.format()
	before := d.size()
	require.NoError(d, os.Truncate(d.image, large))
	require.NoError(d, exec.Command("losetup", "--set-capacity", d.device).Run())
	resizer := peer.NewResizeFs(utilexec.New())
	needed, err := resizer.NeedResize(d.device, d.staging)
	require.NoError(d, err)
	require.True(d, needed)
	grown, err := resizer.Resize(d.device, d.staging)
	if d.fsType == "ext4" && err != nil && strings.Contains(err.Error(), "Permission denied") {
		// Some kernels let nobody grow a mounted one.
		mounttest.SkipWithout(d.T, "growext4", err)
	}
	require.NoError(d, err)
	require.True(d, grown)
	require.Greater(d, d.size(), before)
	require.LessOrEqual(d, d.size(), uint64(large))
	require.NoError(d, d.mounter.Unmount(d.staging))
}

// size returns how many bytes the file system has.
func (d disk) size() uint64 {
	d.Helper()
	var stat unix.Statfs_t
	require.NoError(d, unix.Statfs(d.staging, &stat))
	return stat.Blocks * uint64(stat.Bsize)
}
