package disk_test

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
)

// garbage are bytes without a signature, as those of a fresh encrypted mapping.
var garbage = strings.Repeat("\x8f\x41\xe2\x17 not zero ", 100)

// TestNewDevice: a device with unknown bytes is formatted only for a caller that has made it, and one with
// known content not even then.
func TestNewDevice(t *testing.T) {
	for name, test := range map[string]struct {
		at      int64
		content string
		refused bool
	}{
		"garbage at the start": {0, garbage, false}, "garbage at the end": {size - 4096, garbage, false},
		"partition table": {size - 512, "EFI PART", true}, "encrypted": {0, "LUKS\xba\xbe", true},
		"another file system": {0, "XFSB", true}, "file system and garbage": {0, "XFSB" + garbage, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.Write(vdb, test.at, test.content)
			before := n.content(t)
			require.ErrorAs(t, n.disks.FormatAndMount(t.Context(), n.request("ext4")), new(*disk.ContentError))
			request := n.request("ext4", "ro")
			request.New = true
			require.Error(t, n.disks.FormatAndMount(t.Context(), request), "nothing is written for a read-only mount")
			request.Options = nil
			if test.refused {
				require.ErrorAs(t, n.disks.FormatAndMount(t.Context(), request), new(*disk.ContentError))
				require.ErrorAs(t, n.disks.Format(t.Context(), disk.FormatRequest{Device: vdb, New: true}), new(*disk.ContentError))
				require.Equal(t, before, n.content(t))
				return
			}
			require.Equal(t, before, n.content(t))
			for _, isNew := range []bool{true, true, false} { // the last caller does not say that the device is new
				request.New = isNew
				require.NoError(t, n.disks.FormatAndMount(t.Context(), request))
				require.NoError(t, n.mounter.Unmount(t.Context(), n.target))
			}
			require.Len(t, strings.Split(strings.Join(n.Commands(), "\n"), "mkfs."), 2, "it is formatted once")
		})
	}
}

// TestNewDeviceInterrupted: an interrupted format of a new device continues, also for a caller that does not say
// that it is new.
func TestNewDeviceInterrupted(t *testing.T) {
	n := newNode(t)
	n.Write(vdb, 0, garbage)
	n.Write(vdb, 1<<20, garbage)
	broken := disk.New(disk.Config{Mounter: n.mounter, Devices: tornWriteDevices{n.Devices(), 1 << 19}, Programs: n.Programs()})
	request := n.request("ext4")
	request.New = true
	err := broken.FormatAndMount(t.Context(), request)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, mount.ErrUncertain)
	require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request("ext4")))
}

// TestNewDeviceWrittenMeanwhile: content that another program writes between the probe and an exclusive open
// of a new device stays.
func TestNewDeviceWrittenMeanwhile(t *testing.T) {
	for _, before := range []int{1, 2} { // which exclusive open
		n := newNode(t)
		n.Write(vdb, 4096, garbage)
		opens := 0
		devices := beforeWriteDevices{n.Devices(), func() {
			if opens++; opens == before {
				n.Write(vdb, 0, "XFSB")
			}
		}}
		disks := disk.New(disk.Config{Mounter: n.mounter, Devices: devices, Programs: n.Programs()})
		request := n.request("ext4")
		request.New = true
		err := disks.FormatAndMount(t.Context(), request)
		require.ErrorAs(t, err, new(*disk.ContentError), before)
		require.NotErrorIs(t, err, mount.ErrUncertain)
		require.Equal(t, "xfs", n.content(t).Found[0].Name)
	}
}

// beforeWriteDevices do something before each exclusive open.
type beforeWriteDevices struct {
	disk.Devices
	do func()
}

// Open implements disk.Devices.
func (d beforeWriteDevices) Open(path string) (disk.Handle, error) {
	h, err := d.Devices.Open(path)
	return beforeWriteHandle{h, d.do}, err
}

type beforeWriteHandle struct {
	disk.Handle
	do func()
}

// Write implements disk.Handle.
func (h beforeWriteHandle) Write(write func(io.WriterAt) error) error {
	h.do()
	return h.Handle.Write(write)
}
