package mountutils_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/disk/disktest"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	peer "k8s.io/mount-utils"
)

// TestSafeFormatAndMount: each failure has the type of mount-utils and the cause of package
// disk.
func TestSafeFormatAndMount(t *testing.T) {
	const vdb = "/dev/vdb"
	for name, test := range map[string]struct {
		prepare func(m *disktest.Machine)
		options []string
		format  string // from GetDiskFormat
		kind    peer.MountErrorType
		cause   error
	}{
		"blank":            {func(*disktest.Machine) {}, nil, "", "", nil},
		"blank, read-only": {func(*disktest.Machine) {}, []string{"noatime,ro"}, "", peer.UnformattedReadOnly, disk.ErrNotFormatted},
		"a member":         {func(m *disktest.Machine) { m.Write(vdb, 512, "LABELONE") }, nil, "LVM2_member", peer.FilesystemMismatch, nil},
		"encrypted":        {func(m *disktest.Machine) { m.Write(vdb, 0, "LUKS\xba\xbe") }, nil, "crypto_LUKS", peer.FilesystemMismatch, nil},
		"a table":          {func(m *disktest.Machine) { m.Write(vdb, 512, "EFI PART") }, nil, "unknown data, probably partitions", peer.FilesystemMismatch, nil},
		"unknown bytes":    {func(m *disktest.Machine) { m.Write(vdb, 5000, "text") }, nil, "unknown data", peer.FilesystemMismatch, nil},
		"another type":     {func(m *disktest.Machine) { m.Write(vdb, 0, "XFSB") }, nil, "xfs", peer.FilesystemMismatch, nil},
		"mkfs fails":       {func(m *disktest.Machine) { m.Fail("mkfs.ext4", 1) }, nil, "", peer.FormatFailed, nil},
		"no mkfs":          {func(m *disktest.Machine) { m.Uninstall("mkfs.ext4") }, nil, "", peer.FormatFailed, disk.ErrToolMissing},
		"in use":           {func(m *disktest.Machine) { m.SetInUse(vdb, true) }, nil, "", peer.GetDiskFormatFailed, disk.ErrInUse},
		"bad option":       {func(*disktest.Machine) {}, []string{"suid"}, "", peer.UnknownMountError, nil},
	} {
		t.Run(name, func(t *testing.T) {
			machine := disktest.NewMachine()
			machine.AddDisk(vdb, 1<<30)
			test.prepare(machine)
			target := newTree(t) + "/target"
			mounter := mounttest.NewFake(mount.Config{})
			safe := mountutils.NewSafeFormatAndMount(mountutils.New(mounter), machine.Disks(mounter))
			format, err := safe.GetDiskFormat(vdb)
			require.NoError(t, err)
			require.Equal(t, test.format, format)
			for range 2 {
				err = safe.FormatAndMount(vdb, target, "ext4", test.options)
				if test.kind == "" {
					require.NoError(t, err)
					continue
				}
				var theirs peer.MountError
				require.ErrorAs(t, err, &theirs)
				require.Equal(t, test.kind, theirs.Type, err.Error())
				require.Equal(t, theirs.Message, err.Error())
				if test.cause != nil {
					require.ErrorIs(t, err, test.cause)
				}
			}
			mounted, err := safe.IsMountPoint(target)
			require.NoError(t, err)
			require.Equal(t, test.kind == "", mounted)
		})
	}
}

// TestSafeFormatAndMountFsck: errors that fsck does not repair keep the device unmounted.
func TestSafeFormatAndMountFsck(t *testing.T) {
	machine := disktest.NewMachine()
	machine.AddDisk("/dev/vdb", 1<<30)
	mounter := mounttest.NewFake(mount.Config{})
	disks := machine.Disks(mounter)
	require.NoError(t, disks.Format(t.Context(), disk.FormatRequest{Device: "/dev/vdb"}))
	safe := mountutils.NewSafeFormatAndMount(mountutils.New(mounter), disks)
	target := newTree(t) + "/target"
	machine.Fail("fsck.ext4", 4)
	err := safe.FormatAndMountSensitive("/dev/vdb", target, "", nil, nil)
	var theirs peer.MountError
	require.ErrorAs(t, err, &theirs)
	require.Equal(t, peer.HasFilesystemErrors, theirs.Type)
	machine.Fail("fsck.ext4", 0)
	require.NoError(t, safe.FormatAndMountSensitive("/dev/vdb", target, "", nil, nil))
	machine.Resize("/dev/vdb", 2<<30)
	resizer := mountutils.NewResizeFs(t.Context(), disks)
	needed, err := resizer.NeedResize("/dev/vdb", target)
	require.NoError(t, err)
	require.True(t, needed)
	grown, err := resizer.Resize("/dev/vdb", target)
	require.NoError(t, err)
	require.True(t, grown)
	needed, err = resizer.NeedResize("/dev/vdb", target)
	require.NoError(t, err)
	require.False(t, needed)
}
