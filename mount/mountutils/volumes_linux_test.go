package mountutils_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
	"golang.org/x/sys/unix"
	peer "k8s.io/mount-utils"
)

// TestOtherNames: a call that is repeated with another name of the device or of the target changes nothing, and
// the device can be mounted at a second target.
func TestOtherNames(t *testing.T) {
	onEachType(t, func(d testDisk) {
		dir := filepath.Dir(d.image)
		require.NoError(d, os.Symlink(d.device, dir+"/dm-7"))
		require.NoError(d, os.Symlink("dm-7", dir+"/by-id"))
		require.NoError(d, os.Symlink(dir, dir+"/kubelet"))
		d.requireFormat()
		before := d.mounts()
		for _, device := range []string{dir + "/by-id", d.device, dir + "/kubelet/dm-7"} {
			for _, target := range []string{d.staging, d.staging + "/", dir + "/kubelet/target"} {
				require.NoError(d, d.mounter.FormatAndMount(device, target, d.fsType, nil), "%s at %s", device, target)
				require.NoError(d, d.mounter.Mount(device, target, d.fsType, nil), "%s at %s", device, target)
			}
		}
		require.Equal(d, before, d.mounts())
		require.NoError(d, d.mounter.FormatAndMount(dir+"/by-id", d.publish, d.fsType, nil))
		require.Equal(d, before+1, d.mounts())
		other := map[string]string{"ext4": "xfs", "xfs": "btrfs", "btrfs": "ext4"}[d.fsType]
		require.NoError(d, d.mounter.Unmount(d.publish))
		require.ErrorIs(d, d.mounter.FormatAndMount(d.device, d.publish, other, nil), disk.ErrInUse)
		require.NoError(d, d.mounter.Unmount(d.staging))
	})
}

// mounts returns the length of the mount table.
func (d testDisk) mounts() int {
	d.Helper()
	list, err := d.mounter.List()
	require.NoError(d, err)
	return len(list)
}

// TestReadOnlyClone: NeedResize returns false for a read-only mount, although the device is larger than its file system.
func TestReadOnlyClone(t *testing.T) {
	onEachType(t, func(d testDisk) {
		d.requireFormat()
		require.NoError(d, d.mounter.Unmount(d.staging))
		require.NoError(d, os.Truncate(d.image, large))
		require.NoError(d, exec.Command("losetup", "--set-capacity", d.device).Run())
		require.NoError(d, d.mounter.FormatAndMount(d.device, d.staging, d.fsType, []string{"ro"}))
		require.NoError(d, os.Symlink(filepath.Dir(d.image), d.image+"-dir"))
		for _, target := range []string{d.staging, d.staging + "/", d.image + "-dir/target"} {
			needed, err := mountutils.NewResizeFs(d.Context(), d.disks).NeedResize(d.device, target)
			require.NoError(d, err, target)
			require.False(d, needed)
		}
		require.NoError(d, d.mounter.Unmount(d.staging))
	})
}

// TestCauses: the errors of a mount have the causes of package disk.
func TestCauses(t *testing.T) {
	t.Run("copy", func(t *testing.T) {
		onType(t, "xfs", func(d testDisk) {
			d.requireFormat()
			require.NoError(d, d.mounter.Unmount(d.staging))
			copied := d.copied()
			require.NoError(d, d.mounter.FormatAndMount(d.device, d.staging, "xfs", nil))
			err := d.mounter.FormatAndMount(testbed.Loop(d.T, copied), d.publish, "xfs", nil)
			require.ErrorIs(d, err, disk.ErrDuplicate)
			require.ErrorAs(d, err, new(peer.MountError))
			require.NoError(d, d.mounter.Unmount(d.staging))
		})
	})
	t.Run("journal", func(t *testing.T) {
		onType(t, "ext4", func(d testDisk) {
			d.requireFormat()
			require.NoError(d, os.WriteFile(d.staging+"/file", nil, 0o600))
			unix.Sync()
			copied := d.copied() // while it is mounted
			out, err := exec.Command("losetup", "--find", "--show", "--read-only", copied).Output()
			require.NoError(d, err)
			device := string(out[:len(out)-1])
			testbed.DetachAtEnd(d.T, device)
			err = d.mounter.FormatAndMount(device, d.publish, "ext4", []string{"ro"})
			require.ErrorIs(d, err, disk.ErrDirty)
			require.ErrorAs(d, err, new(peer.MountError))
			require.NoError(d, d.mounter.Unmount(d.staging))
		})
	})
}

// copied returns a copy of the image.
func (d testDisk) copied() (image string) {
	d.Helper()
	image = d.image + "-copy"
	out, err := exec.Command("cp", "--sparse=always", d.image, image).CombinedOutput()
	require.NoError(d, err, string(out))
	return image
}

// TestDocumentedRefusals: a regular file is no device, and a path that is no mount point does not grow.
func TestDocumentedRefusals(t *testing.T) {
	onType(t, "ext4", func(d testDisk) {
		require.ErrorIs(d, d.mounter.FormatAndMount(d.image, d.staging, "ext4", nil), unix.ENOTBLK)
		var image unix.Stat_t
		require.NoError(d, unix.Stat(d.image, &image))
		require.Zero(d, image.Blocks, "nothing is written")
		_, err := mountutils.NewResizeFs(d.Context(), d.disks).Resize(d.device, d.staging)
		require.ErrorIs(d, err, mount.ErrNotMounted)
	})
}

// TestForNewDevice: only a driver that says so formats over unknown bytes.
func TestForNewDevice(t *testing.T) {
	onType(t, "ext4", func(d testDisk) {
		require.NoError(d, os.WriteFile(d.device, []byte("of a fresh mapping"), 0o600))
		require.ErrorAs(d, d.mounter.FormatAndMount(d.device, d.staging, "ext4", nil), new(*disk.ContentError))
		require.NoError(d, d.mounter.ForNewDevice().FormatAndMount(d.device, d.staging, "ext4", nil))
		d.requireMounted(d.staging)
		require.NoError(d, d.mounter.Unmount(d.staging))
	})
}
