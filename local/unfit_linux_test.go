package local_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/volume"
)

// TestDiskTooSmallToFormat: mkfs has failed, the device is as blank as before, and nothing
// is remembered of it.
func TestDiskTooSmallToFormat(t *testing.T) {
	r := newRig(t, "ext4", "xfs", "btrfs")
	if r == nil {
		return
	}
	for fsType, size := range map[string]int64{"ext2": 64 << 10, "ext3": 64 << 10, "ext4": 64 << 10, "xfs": smallDisk, "btrfs": smallDisk} {
		d := r.disk(fsType, size)
		before := d.sum(t)
		s := deviceSpec(r.link(fsType, d), fsType)
		for range 2 {
			err := r.mountDevice(s)
			require.ErrorIs(t, err, local.ErrDeviceTooSmall, fsType)
			require.Equal(t, volume.Final, volume.KindOf(err), "%s: %v", fsType, err)
			require.Equal(t, before, d.sum(t), fsType)
			_, err = os.Lstat(r.dir + "/root/plugins/kubernetes.io/local-volume/devices/pv")
			require.ErrorIs(t, err, os.ErrNotExist, fsType)
		}
	}
	require.Empty(t, mountsBelow(t, r.mount, r.dir))
}

// TestFormattingFails on a disk that is large enough: not for its size.
func TestFormattingFails(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	s := deviceSpec(r.link("disk", r.disk("disk", smallDisk)), "ext4")
	r.replacePrograms(map[string]string{"mkfs.ext4": "exit 1"})
	err := r.mountDevice(s)
	require.ErrorContains(t, err, "exit status 1")
	require.NotErrorIs(t, err, local.ErrDeviceTooSmall)
	require.NotEqual(t, volume.Final, volume.KindOf(err))
}

// TestShrunkDisk: a device that has become smaller than its file system is refused before
// fsck looks at it, and usable again once it is as large.
func TestShrunkDisk(t *testing.T) {
	for fsType := range diskFor {
		t.Run(fsType, func(t *testing.T) {
			if r := newRig(t, fsType); r != nil {
				testShrunkDisk(t, r, fsType)
			}
		})
	}
}

func testShrunkDisk(t *testing.T, r *rig, fsType string) {
	size := diskFor[fsType]
	d := r.disk("disk", size)
	s := deviceSpec(r.link("disk", d), fsType)
	r.mountFirst(s)
	require.NoError(t, r.unmountDevice(s))
	image, err := os.OpenFile(d.image, os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { _ = image.Close() }()
	const lost = 4 << 20
	tail := make([]byte, lost) // the whole image is larger than the memory of some machines
	_, err = image.ReadAt(tail, size-lost)
	require.NoError(t, err)

	require.NoError(t, image.Truncate(size-lost))
	require.NoError(t, loop.Resize(context.Background(), loop.Device{Path: d.device}))
	before := d.sum(t)
	for _, options := range [][]string{nil, {"ro"}} {
		err = r.mountDevice(deviceSpec(r.links+"/disk", fsType, options...))
		require.ErrorIs(t, err, local.ErrDeviceTooSmall)
		require.Equal(t, volume.Final, volume.KindOf(err))
		require.Equal(t, before, d.sum(t))
	}

	_, err = image.WriteAt(tail, size-lost)
	require.NoError(t, err)
	require.NoError(t, loop.Resize(context.Background(), loop.Device{Path: d.device}))
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
}

// TestDirtyDiskReadOnly: a file system that was not unmounted, on a device that nothing can
// be written to.
func TestDirtyDiskReadOnly(t *testing.T) {
	for fsType, option := range map[string]string{"ext4": "noload", "xfs": "norecovery", "btrfs": "rescue=nologreplay"} {
		t.Run(fsType, func(t *testing.T) {
			if r := newRig(t, fsType); r != nil {
				testDirtyDiskReadOnly(t, r, fsType, option)
			}
		})
	}
}

func testDirtyDiskReadOnly(t *testing.T, r *rig, fsType, option string) {
	d := r.disk("disk", diskFor[fsType])
	s := deviceSpec(r.link("disk", d), fsType)
	r.mountFirst(s)
	f, err := os.Create(r.shared(s) + "/file")
	require.NoError(t, err)
	_, err = f.WriteString("text")
	require.NoError(t, err)
	require.NoError(t, f.Sync(), "what is in the journal")
	require.NoError(t, f.Close())
	crashed, err := exec.Command("cp", "--sparse=always", d.image, r.dir+"/crashed.image").CombinedOutput()
	require.NoError(t, err, string(crashed))
	require.NoError(t, r.unmountDevice(s))
	require.NoError(t, r.plugin.Forget(t.Context(), "pv"))

	r.link("disk", r.readOnlyDisk("crashed"))
	readOnly := deviceSpec(r.links+"/disk", fsType, "ro")
	for range 2 {
		err = r.mountDevice(readOnly)
		require.ErrorIs(t, err, local.ErrFileSystemDirty)
		require.Equal(t, volume.Final, volume.KindOf(err), "%v", err)
		require.Empty(t, mountsBelow(t, r.mount, r.shared(readOnly)))
	}
	readOnly = deviceSpec(r.links+"/disk", fsType, "ro", option)
	require.NoError(t, r.mountDevice(readOnly), "the journal is left alone")
	require.NoError(t, r.unmountDevice(readOnly))

	r.link("disk", r.disk("crashed", 0))
	require.NoError(t, r.mountDevice(s), "once it can be written to")
	require.NoError(t, r.unmountDevice(s))
}
