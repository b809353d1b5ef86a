package local_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// enough descriptors for anything that the plugin does itself.
const enough = 32

// TestFewDescriptors: however many are left, a volume that does not come up may come up
// later: the error is not final.
func TestFewDescriptors(t *testing.T) {
	if !mounttest.Namespace(t) { // a process of its own
		return
	}
	n := newNode(t, mount.New(mount.Config{}))
	require.NoError(t, os.Mkdir(n.disks+"/few", 0o755))
	s, group := spec(n.disks+"/few"), int64(os.Getgid())
	failed := 0
	for free := range enough {
		mounter := n.mounter(t, s, "1")
		restore := testbed.LeaveDescriptors(t, free)
		err := mounter.SetUp(t.Context(), volume.MounterArgs{FsGroup: &group})
		restore()
		if err != nil {
			failed++
			require.NotEqual(t, volume.Final, volume.KindOf(err), "%d descriptors: %v", free, err)
			require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{FsGroup: &group}))
		}
		require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
	}
	require.Positive(t, failed)
}

// TestFewDescriptorsForADisk: nor is it final of a disk, and nobody takes it for another.
func TestFewDescriptorsForADisk(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	s := deviceSpec(r.link("disk", r.disk("disk", smallDisk)), "")
	r.mountFirst(s)
	require.NoError(t, os.WriteFile(r.shared(s)+"/file", nil, 0o600))
	require.NoError(t, r.unmountDevice(s))
	failed := 0
	for free := range enough {
		restore := testbed.LeaveDescriptors(t, free)
		err := r.mountDevice(s)
		restore()
		if err != nil {
			failed++
			require.NotEqual(t, volume.Final, volume.KindOf(err), "%d descriptors: %v", free, err)
			require.NotErrorIs(t, err, local.ErrDeviceGone)
			require.NoError(t, r.mountDevice(s))
		}
		require.FileExists(t, r.shared(s)+"/file")
		require.NoError(t, r.unmountDevice(s))
	}
	require.Positive(t, failed)
}
