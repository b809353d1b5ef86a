package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// TestDevice is the life of a volume on a device: formatted, mounted, used by two
// pods, grown, unmounted, and mounted again after a restart.
func TestDevice(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			if r := newRig(t, fsType); r != nil {
				testDevice(t, r, fsType)
			}
		})
	}
}

func testDevice(t *testing.T, r *rig, fsType string) {
	d := r.disk("disk", largeDisk)
	s := deviceSpec(r.link("disk", d), fsType, "noatime")
	can, err := r.plugin.CanDeviceMount(t.Context(), s)
	require.NoError(t, err)
	require.True(t, can)
	_, err = r.setUp(s, "1", volume.MounterArgs{})
	require.ErrorIs(t, err, volume.ErrNotMounted)

	r.mountFirst(s)
	require.NoError(t, r.mountDevice(s), "again")
	at, err := r.setUp(s, "1", volume.MounterArgs{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(at+"/file", []byte("text"), 0o600))
	reader, err := r.setUp(s, "2", volume.MounterArgs{ReadOnly: true})
	require.NoError(t, err)
	require.ErrorIs(t, os.WriteFile(reader+"/file", nil, 0o600), unix.EROFS)
	refs, err := r.plugin.GetDeviceMountRefs(t.Context(), r.shared(s))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{at, reader}, refs)
	require.ErrorIs(t, r.unmountDevice(s), local.ErrDeviceInUse)
	mounts := mountsBelow(t, r.mount, r.dir)
	require.Len(t, mounts, 3)
	require.Equal(t, fsType, mounts[0].FSType)
	require.NotZero(t, mounts[1].Flags&mount.NoAtime)

	testRecovered(t, r, s, at)
	t.Run("Grown", func(t *testing.T) { testGrown(t, r, d, s, at) })

	r.tearDown("1")
	r.tearDown("2")
	for range 2 {
		require.NoError(t, r.unmountDevice(s))
	}
	require.NoDirExists(t, r.shared(s))
	r.restart(local.Config{})
	s.PersistentVolume.Spec.Local.FSType = nil // any type
	require.NoError(t, r.mountDevice(s))
	at, err = r.setUp(s, "1", volume.MounterArgs{})
	require.NoError(t, err)
	text, err := os.ReadFile(at + "/file")
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	r.tearDown("1")
	require.NoError(t, r.unmountDevice(s))
	require.Empty(t, mountsBelow(t, r.mount, r.dir))
}

// testRecovered: after a restart the volume is known, and both mounts are as it says.
func testRecovered(t *testing.T, r *rig, s *volume.Spec, at string) {
	t.Helper()
	r.restart(local.Config{})
	before := mountsBelow(t, r.mount, r.dir)
	found, err := r.plugin.ConstructVolumeSpec(t.Context(), "pv", at)
	require.NoError(t, err)
	require.Equal(t, s.PersistentVolume.Spec.Local.Path, found.Spec.PersistentVolume.Spec.Local.Path)
	require.Equal(t, s.PersistentVolume.UID, found.Spec.PersistentVolume.UID)
	require.Equal(t, *s.PersistentVolume.Spec.Local.FSType, *found.Spec.PersistentVolume.Spec.Local.FSType)
	require.NoError(t, r.mountDevice(found.Spec))
	_, err = r.setUp(found.Spec, "1", volume.MounterArgs{})
	require.NoError(t, err)
	require.Equal(t, before, mountsBelow(t, r.mount, r.dir))
}

func testGrown(t *testing.T, r *rig, d testDisk, s *volume.Spec, at string) {
	t.Helper()
	if fsType := *s.PersistentVolume.Spec.Local.FSType; fsType == "xfs" {
		testbed.RequirePrograms(t, fsType, "xfs_growfs")
	}
	const more = largeDisk + 128<<20
	req := volume.NodeResizeOptions{Spec: s, NewSize: *resource.NewQuantity(more, resource.BinarySI)}
	done, err := r.plugin.NodeExpand(t.Context(), req)
	require.NoError(t, err)
	require.False(t, done, "the device is smaller yet")
	before := bytesOf(t, at)
	require.NoError(t, os.Truncate(d.image, more))
	require.NoError(t, loop.Resize(context.Background(), loop.Device{Path: d.device}))
	done, err = r.plugin.NodeExpand(t.Context(), req)
	if *s.PersistentVolume.Spec.Local.FSType == "ext4" && err != nil && strings.Contains(err.Error(), "Permission denied") {
		mounttest.SkipWithout(t, "growext4", err) // some kernels refuse to grow a mounted one
	}
	require.NoError(t, err)
	require.True(t, done)
	require.Greater(t, bytesOf(t, at), before)
	done, err = r.plugin.NodeExpand(t.Context(), req)
	require.NoError(t, err)
	require.True(t, done, "again")
}

// bytesOf returns how many bytes a file system has.
func bytesOf(t *testing.T, at string) uint64 {
	t.Helper()
	var stat unix.Statfs_t
	require.NoError(t, unix.Statfs(at, &stat))
	return stat.Blocks * uint64(stat.Bsize)
}

// TestNoMedium checks that a device of size 0 is gone, not blank: a medium with content may
// be inserted at any moment.
func TestNoMedium(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	at := r.link("disk", r.disk("disk", 0))
	mapper, err := r.plugin.NewBlockVolumeMapper(blockSpec(at), pod("1"))
	require.NoError(t, err)
	_, mapped := mapper.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	for _, err := range []error{r.mountDevice(deviceSpec(at, "")), mapped} {
		require.ErrorIs(t, err, local.ErrDeviceGone)
		require.Equal(t, volume.Transient, volume.KindOf(err))
	}
	_, err = os.Lstat(r.dir + "/root/plugins/kubernetes.io/local-volume/devices/pv")
	require.ErrorIs(t, err, os.ErrNotExist, "nothing is noted of it")
}

// contents are kinds of data on a device that must not be lost.
var contents = []struct {
	name    string
	offset  int64 // from the end if negative
	content string
}{
	{"gpt", 512, "EFI PART"},
	{"gpt", -512, "EFI PART"},
	{"mbr", 510, "\x55\xaa"},
	{"lvm2", 512, "LABELONE"},
	{"linux_raid", -65536, "\xfc\x4e\x2b\xa9"},
	{"linux_raid", -8192, "\xfc\x4e\x2b\xa9"},
	{"linux_raid", 0, "\xfc\x4e\x2b\xa9"},
	{"linux_raid", 4096, "\xfc\x4e\x2b\xa9"},
	{"swap", 4086, "SWAPSPACE2"},
	{"luks", 0, "LUKS\xba\xbe"},
	{"bcache", 4120, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"},
	{"zfs_member", 128 << 10, "\x0c\xb1\xba\x00\x00\x00\x00\x00"},
	{"bluestore", 0, "bluestore block device"},
	{"drbd", -4036, "\x83\x74\x02\x6b"},
	{"ntfs", 3, "NTFS    "},
	{"iso9660", 32769, "CD001"},
	{"ext4", 1024 + 56, "\x53\xef" + string(make([]byte, 96-58)) + "\x40\x00\x00\x00"},
	{"btrfs", 65536 + 64, "_BHRfS_M"},
	{"data", 100_000, "nobody knows what"},
	{"data", -1, "x"},
}

// TestForeignContent: a device that carries anything is not formatted, and not one
// byte of it changes.
func TestForeignContent(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	for _, test := range contents {
		const size = 4 << 20
		d := r.disk("disk", size)
		f, err := os.OpenFile(d.device, os.O_RDWR, 0)
		require.NoError(t, err)
		offset := test.offset
		if offset < 0 {
			offset += size
		}
		_, err = f.WriteAt([]byte(test.content), offset)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		before := d.sum(t)

		s := deviceSpec(r.link("disk", d), "xfs")
		var carries *local.ContentError
		err = r.mountDevice(s)
		require.ErrorAs(t, err, &carries, test.name)
		require.Equal(t, test.name, carries.Found[0].Name)
		require.Equal(t, volume.Final, volume.KindOf(err), test.name)
		require.Contains(t, err.Error(), test.name)
		require.Equal(t, before, d.sum(t), test.name)
		require.NoDirExists(t, r.shared(s), "nothing is left")
		require.Empty(t, mountsBelow(t, r.mount, r.dir))
		require.NoError(t, os.Remove(d.image))
	}
}

// TestFileSystemsOfOtherPrograms: a file system of the usual programs is refused, or mounted unchanged.
func TestFileSystemsOfOtherPrograms(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	testbed.RequirePrograms(t, "ext4", "mkswap", "mkfs.ext4", "mkfs.ext3")
	r := newRig(t)
	swap := r.disk("swap", smallDisk)
	run(t, "mkswap", swap.device)
	before := swap.sum(t)
	var carries *local.ContentError
	require.ErrorAs(t, r.mountDevice(deviceSpec(r.link("swap", swap), "")), &carries)
	require.Equal(t, before, swap.sum(t))

	theirs := r.disk("theirs", smallDisk)
	run(t, "mkfs.ext3", "-q", theirs.device)
	s := deviceSpec(r.link("theirs", theirs), "ext4")
	require.ErrorAs(t, r.mountDevice(s), &carries, "another type")
	require.Equal(t, "ext4", carries.Want)
	s = deviceSpec(r.link("theirs", theirs), "")
	require.NoError(t, r.mountDevice(s))
	require.Equal(t, "ext3", mountsBelow(t, r.mount, r.dir)[0].FSType)
	require.NoError(t, r.unmountDevice(s))
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestDeviceSwapped: another device in the place of a volume's is not taken for it.
func TestDeviceSwapped(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	first, blank, other := r.disk("first", smallDisk), r.disk("blank", smallDisk), r.disk("other", smallDisk)
	run(t, "mkfs.ext4", "-q", other.device)
	s := deviceSpec(r.link("disk", first), "ext4")
	require.NoError(t, r.mountDevice(s))

	r.link("disk", other) // while it is mounted
	require.ErrorIs(t, r.mountDevice(s), local.ErrDeviceSwapped)
	_, err := r.setUp(s, "1", volume.MounterArgs{})
	require.ErrorIs(t, err, local.ErrDeviceSwapped)
	require.NoError(t, r.unmountDevice(s))

	for _, d := range []testDisk{blank, other} {
		r.link("disk", d)
		before := d.sum(t)
		err := r.mountDevice(s)
		require.ErrorIs(t, err, local.ErrDeviceSwapped)
		require.Equal(t, volume.Final, volume.KindOf(err))
		require.Equal(t, before, d.sum(t))
	}
	r.link("disk", first)
	require.NoError(t, r.mountDevice(s), "the right one")
	require.ErrorIs(t, r.plugin.Forget(t.Context(), "pv"), local.ErrDeviceInUse)
	require.NoError(t, r.unmountDevice(s))

	r.link("disk", blank) // on purpose
	for range 2 {
		require.NoError(t, r.plugin.Forget(t.Context(), "pv"))
	}
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
	r.link("disk", other)
	s.PersistentVolume.UID = "of another volume, of the same name"
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
}

func TestDeviceReadOnly(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	readOnly := deviceSpec(r.link("disk", d), "ext4", "ro")
	before := d.sum(t)
	require.ErrorIs(t, r.mountDevice(readOnly), local.ErrNotFormatted)
	byClaim := deviceSpec(r.links+"/disk", "ext4")
	byClaim.ReadOnly = true
	require.ErrorIs(t, r.mountDevice(byClaim), local.ErrNotFormatted)
	require.Equal(t, before, d.sum(t))

	writable := deviceSpec(r.links+"/disk", "ext4")
	require.NoError(t, r.mountDevice(writable))
	require.NoError(t, r.mountDevice(byClaim), "it is the pod's mount that is read-only")
	at, err := r.setUp(byClaim, "1", volume.MounterArgs{})
	require.NoError(t, err)
	require.ErrorIs(t, os.WriteFile(at+"/file", nil, 0o600), unix.EROFS)
	r.tearDown("1")
	require.ErrorIs(t, r.mountDevice(readOnly), volume.ErrAlreadyMounted)
	require.NoError(t, r.unmountDevice(writable))

	require.NoError(t, r.mountDevice(readOnly))
	require.NotZero(t, mountsBelow(t, r.mount, r.dir)[0].Flags&mount.ReadOnly)
	at, err = r.setUp(readOnly, "1", volume.MounterArgs{})
	require.NoError(t, err)
	require.ErrorIs(t, os.WriteFile(at+"/file", nil, 0o600), unix.EROFS)
	_, err = r.setUp(writable, "2", volume.MounterArgs{})
	require.ErrorIs(t, err, local.ErrDeviceReadOnly)
	r.tearDown("1")
	require.NoError(t, r.unmountDevice(readOnly))

	protected := r.readOnlyDisk("disk") // the same image
	r.link("disk", protected)
	err = r.mountDevice(writable)
	require.ErrorIs(t, err, local.ErrDeviceReadOnly)
	require.Equal(t, volume.Final, volume.KindOf(err))
	require.NoError(t, r.mountDevice(byClaim), "nobody writes to it")
	require.NoError(t, r.unmountDevice(byClaim))
}

// TestDeviceRefused: files that are no devices, and devices outside of the roots, are refused.
func TestDeviceRefused(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	theirs := r.disks + "/disk/made-by-a-pod"
	require.NoError(t, unix.Mknod(theirs, unix.S_IFBLK|0o600, int(numberOf(t, d))))
	require.NoError(t, os.Symlink(d.device, r.disks+"/link"))
	require.NoError(t, os.Symlink(r.disks+"/link", r.links+"/by-another"))
	require.NoError(t, os.Symlink(r.disks+"/disk", r.links+"/directory"))
	require.NoError(t, os.Symlink("/dev/null", r.links+"/null"))
	require.NoError(t, os.Symlink("loop", r.links+"/loop"))
	require.NoError(t, os.Symlink("/dev/no-such-disk", r.links+"/gone"))
	before := d.sum(t)
	for path, want := range map[string]error{
		r.links + "/directory":  local.ErrNotDevice,
		r.links + "/null":       local.ErrNotDevice,
		r.links + "/by-another": local.ErrLink,
		r.disks + "/link":       local.ErrLink,
		r.links + "/loop":       unix.ELOOP,
		r.links + "/gone":       local.ErrDeviceGone,
		r.links + "/missing":    local.ErrDeviceGone,
	} {
		s := deviceSpec(path, "ext4")
		err := r.mountDevice(s)
		require.ErrorIs(t, err, want, path)
		if errors.Is(want, local.ErrNotDevice) {
			require.Equal(t, volume.Final, volume.KindOf(err), path)
		}
		var of *local.DeviceError
		require.ErrorAs(t, err, &of)
		require.Equal(t, "pv", of.Volume)
		kind := volume.KindOf(err)
		_, err = r.setUp(s, "1", volume.MounterArgs{})
		require.ErrorIs(t, err, want, path)
		require.Equal(t, kind, volume.KindOf(err), path)
		_, err = r.plugin.CanDeviceMount(t.Context(), s)
		require.ErrorIs(t, err, want, path)
		mapper, err := r.plugin.NewBlockVolumeMapper(blockSpec(path), pod("1"))
		require.NoError(t, err)
		_, err = mapper.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
		require.ErrorIs(t, err, want, path)
	}
	for _, path := range []string{theirs, r.disks + "/disk"} { // no devices, or not for volumes
		can, err := r.plugin.CanDeviceMount(t.Context(), deviceSpec(path, "ext4"))
		require.NoError(t, err)
		require.False(t, can, path)
		require.NoError(t, r.mountDevice(deviceSpec(path, "ext4")), "there is nothing to do")
	}
	_, err := r.plugin.NewBlockVolumeMapper(blockSpec(theirs), pod("1"))
	require.Error(t, err)
	_, err = r.plugin.NewMounter(deviceSpec(r.links+"/disk/deeper", ""), pod("1"))
	require.ErrorContains(t, err, "directly in")
	_, err = r.plugin.NewMounter(deviceSpec(r.links+"/x", "ntfs"), pod("1"))
	require.ErrorContains(t, err, "fsType")
	require.Equal(t, before, d.sum(t))
	require.Empty(t, mountsBelow(t, r.mount, r.dir))

	// By way of another link in the same directory, as udev makes them.
	r.link("disk", d)
	require.NoError(t, os.Symlink("disk", r.links+"/other-name"))
	can, err := r.plugin.CanDeviceMount(t.Context(), deviceSpec(r.links+"/other-name", ""))
	require.NoError(t, err)
	require.True(t, can)
	// Or right in a root.
	require.NoError(t, unix.Mknod(r.disks+"/node", unix.S_IFBLK|0o600, int(numberOf(t, d))))
	can, err = r.plugin.CanDeviceMount(t.Context(), deviceSpec(r.disks+"/node", ""))
	require.NoError(t, err)
	require.True(t, can)
}

func numberOf(t testing.TB, d testDisk) uint64 {
	t.Helper()
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(d.device, &stat))
	return stat.Rdev
}

// TestDeviceInUse: a device that another program uses stays unchanged.
func TestDeviceInUse(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	run(t, "mkfs.ext4", "-q", d.device)
	s := deviceSpec(r.link("disk", d), "ext4")
	elsewhere := r.dir + "/elsewhere"
	require.NoError(t, os.Mkdir(elsewhere, 0o755))
	require.NoError(t, r.mount.Mount(t.Context(), mount.Request{Source: d.device, Target: elsewhere, FSType: "ext4"}))
	err := r.mountDevice(s)
	require.ErrorIs(t, err, local.ErrDeviceInUse)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	mapper, err := r.plugin.NewBlockVolumeMapper(blockSpec(r.links+"/disk"), pod("1"))
	require.NoError(t, err)
	_, err = mapper.SetUpDevice(t.Context(), volume.BlockVolumePaths{})
	require.ErrorIs(t, err, local.ErrDeviceInUse)
	require.NoError(t, r.mount.Unmount(t.Context(), elsewhere))
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))

	raw := blockSpec(r.links + "/disk")
	raw.PersistentVolume.Name = "raw"
	mapper, err = r.plugin.NewBlockVolumeMapper(raw, pod("1"))
	require.NoError(t, err)
	_, err = mapper.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	require.ErrorIs(t, r.mountDevice(s), local.ErrDeviceInUse, "it is another volume's")
}

// TestOneDeviceTwoVolumes checks that exactly one of several volumes on one device is
// mounted.
func TestOneDeviceTwoVolumes(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	for range 5 {
		path := r.link("disk", r.disk("disk", 4<<20))
		m, err := r.plugin.NewDeviceMounter()
		require.NoError(t, err)
		var specs []*volume.Spec
		results := make(chan error, 4)
		for i := range cap(results) {
			s := deviceSpec(path, "ext4")
			s.PersistentVolume.Name = fmt.Sprint("pv-", i)
			s.PersistentVolume.UID = types.UID(fmt.Sprint("uid-", i))
			require.NoError(t, r.plugin.Forget(t.Context(), s.Name()))
			specs = append(specs, s)
			at := r.shared(s)
			go func() { results <- m.MountDevice(t.Context(), s, at, volume.DeviceMounterArgs{}) }()
		}
		mounted := 0
		for range specs {
			if err := <-results; err == nil {
				mounted++
			} else {
				require.ErrorIs(t, err, local.ErrDeviceInUse)
			}
		}
		require.Equal(t, 1, mounted)
		for _, s := range specs {
			require.NoError(t, r.unmountDevice(s))
		}
		require.NoError(t, os.Remove(r.dir+"/disk.image"))
	}
}

// TestBadRecord: records are untrusted input.
func TestBadRecord(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	s := deviceSpec(r.link("disk", d), "ext4")
	require.NoError(t, r.mountDevice(s))
	at, err := r.setUp(s, "1", volume.MounterArgs{})
	require.NoError(t, err)
	file := filepath.Join(filepath.Dir(filepath.Dir(r.shared(s))), "devices", "pv")
	require.FileExists(t, file)
	require.NoError(t, os.Truncate(file, 7))

	found, err := r.plugin.ConstructVolumeSpec(t.Context(), "pv", at)
	require.ErrorIs(t, err, volume.ErrUncertain, "%v", found.Spec)
	r.tearDown("1")
	require.NoError(t, r.unmountDevice(s), "it is not needed for that")
	before := d.sum(t)
	var bad *local.RecordError
	require.ErrorAs(t, r.mountDevice(s), &bad)
	require.Equal(t, file, bad.File)
	require.Equal(t, before, d.sum(t))
	require.NoError(t, r.plugin.Forget(t.Context(), "pv"))
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
}
