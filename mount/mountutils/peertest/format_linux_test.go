// Package peertest tests mountutils.New under SafeFormatAndMount and ResizeFs of
// k8s.io/mount-utils themselves. It is a module of its own, so that the library does not
// require k8s.io/utils, whose exec these types take.
package peertest

import (
	"encoding/binary"
	"hash/crc32"
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
	utilexec "k8s.io/utils/exec"
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
		t.Run(fsType, func(t *testing.T) {
			if mounttest.RootNamespace(t) {
				test(newDisk(t, fsType))
			}
		})
	}
}

// A testDisk is a loop device with its mount points.
type testDisk struct {
	*testing.T
	mounter               *peer.SafeFormatAndMount
	fsType, image, device string
	staging, publish      string
}

func newDisk(t *testing.T, fsType string) testDisk {
	t.Helper()
	for _, program := range []string{"mkfs." + fsType, "losetup", "blkid"} {
		if _, err := exec.LookPath(program); err != nil {
			mounttest.SkipWithout(t, fsType, err)
		}
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"target", "other"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	d := testDisk{
		T: t, fsType: fsType, image: filepath.Join(dir, "image"),
		staging: filepath.Join(dir, "target"), publish: filepath.Join(dir, "other"),
	}
	config := mount.Config{StagingDir: filepath.Join(dir, "staging")}
	d.mounter = peer.NewSafeFormatAndMount(mountutils.New(mount.New(config)), utilexec.New())
	testbed.Image(t, d.image, small)
	d.device = testbed.Loop(t, d.image)
	t.Cleanup(func() { // frees the device of a failed test
		_ = unix.Unmount(d.publish, unix.MNT_DETACH)
		_ = unix.Unmount(d.staging, unix.MNT_DETACH)
	})
	return d
}

func (d testDisk) testLifeCycle() {
	require.ErrorContains(d, d.mounter.FormatAndMount(d.device, d.staging, d.fsType, []string{"ro"}), "unformatted")
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
	resizer := peer.NewResizeFs(utilexec.New())
	needed, err := resizer.NeedResize(d.device, d.staging)
	require.NoError(d, err)
	require.True(d, needed)
	grown, err := resizer.Resize(d.device, d.staging)
	if d.fsType == "ext4" && err != nil && strings.Contains(err.Error(), "Permission denied") {
		// Some kernels cannot grow a mounted ext4.
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

// TestGetDiskFormat: contents have the names that blkid gives them.
func TestGetDiskFormat(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := t.TempDir()
	theirs := peer.NewSafeFormatAndMount(peer.New(""), utilexec.New())
	ours := mountutils.NewSafeFormatAndMount(mountutils.New(mount.New(mount.Config{})), disk.New(disk.Config{}))
	for name, content := range map[string]struct {
		command []string         // with the path of the image
		bytes   map[int64]string // where they stand in the image
		want    string
	}{
		"blank": {nil, nil, ""},
		"swap":  {[]string{"mkswap"}, nil, "swap"},
		"ext4":  {[]string{"mkfs.ext4", "-q"}, nil, "ext4"},
		"xfs":   {[]string{"mkfs.xfs", "-q"}, nil, "xfs"},
		"btrfs": {[]string{"mkfs.btrfs", "-q"}, nil, "btrfs"},
		"log":   {nil, map[int64]string{0: "\xfe\xed\xba\xbe\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x02\x00", 300: "\x00\x00\x00\x01"}, "xfs_external_log"},
		"luks1": {nil, map[int64]string{0: "LUKS\xba\xbe\x00\x01"}, "crypto_LUKS"},
		"lvm2":  {nil, map[int64]string{512: lvmLabel()}, "LVM2_member"},
		"raid":  {nil, map[int64]string{4096: raidSuperblock()}, "linux_raid_member"},
		"table": {nil, map[int64]string{446: "\x00\x00\x02\x00\x83\xff\xff\xff\x00\x08\x00\x00\x00\x80\x00\x00", 510: "\x55\xaa"}, "unknown data, probably partitions"},
	} {
		t.Run(name, func(t *testing.T) {
			image := filepath.Join(dir, name)
			testbed.Image(t, image, small)
			if len(content.command) > 0 {
				if _, err := exec.LookPath(content.command[0]); err != nil {
					mounttest.SkipWithout(t, name, err)
				}
				out, err := exec.Command(content.command[0], append(content.command[1:], image)...).CombinedOutput()
				require.NoError(t, err, string(out))
			}
			f, err := os.OpenFile(image, os.O_RDWR, 0)
			require.NoError(t, err)
			defer func() { _ = f.Close() }()
			for at, text := range content.bytes {
				_, err := f.WriteAt([]byte(text), at)
				require.NoError(t, err)
			}
			device := testbed.Loop(t, image)
			for who, format := range map[string]func(string) (string, error){"theirs": theirs.GetDiskFormat, "ours": ours.GetDiskFormat} {
				got, err := format(device)
				require.NoError(t, err, who)
				require.Equal(t, content.want, got, who)
			}
		})
	}
}

// lvmLabel is the label sector of a physical volume, with its checksum.
func lvmLabel() string {
	b := make([]byte, 512)
	copy(b, "LABELONE")
	binary.LittleEndian.PutUint64(b[8:], 1)
	binary.LittleEndian.PutUint32(b[20:], 32)
	copy(b[24:], "LVM2 001")
	sum := crc32.Update(^uint32(0xf597a6cf), crc32.IEEETable, b[20:]) // lvm2 starts with a number of its own
	binary.LittleEndian.PutUint32(b[16:], ^sum)
	return string(b)
}

// raidSuperblock is the start of a superblock of version 1.2, of 4 KiB after the start of the device.
func raidSuperblock() string {
	b := make([]byte, 256)
	copy(b, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00")
	binary.LittleEndian.PutUint64(b[144:], 8)
	var sum uint64 // of the words with no checksum yet, folded
	for i := 0; i < len(b); i += 4 {
		sum += uint64(binary.LittleEndian.Uint32(b[i:]))
	}
	binary.LittleEndian.PutUint32(b[216:], uint32(sum)+uint32(sum>>32))
	return string(b)
}

func TestMain(m *testing.M) { mounttest.Main(m, nil) }
