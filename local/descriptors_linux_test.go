package local_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/volume"
)

// enough descriptors for anything that the plugin does itself.
const enough = 16

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

// TestFewDescriptorsForARawDevice: nor when it is mapped, nor when it is let go of.
func TestFewDescriptorsForARawDevice(t *testing.T) {
	r := newRig(t)
	if r == nil {
		return
	}
	s := blockSpec(r.link("disk", r.disk("disk", smallDisk)))
	u, err := r.plugin.NewBlockVolumeUnmapper(s.Name(), "1")
	require.NoError(t, err)
	global, err := u.GetGlobalMapPath(s)
	require.NoError(t, err)
	m, err := r.plugin.NewBlockVolumeMapper(s, pod("1"))
	require.NoError(t, err)
	verbs := []func() error{
		func() error { _, err := m.MapPodDevice(t.Context()); return err },
		func() error { return u.UnmapPodDevice(t.Context()) },
		func() error { return u.TearDownDevice(t.Context(), global, "") },
	}
	failed := 0
	for free := range enough {
		for i, verb := range verbs {
			restore := testbed.LeaveDescriptors(t, free)
			err := verb()
			restore()
			if err != nil {
				failed++
				require.NotEqual(t, volume.Final, volume.KindOf(err), "verb %d, %d descriptors: %v", i, free, err)
			}
			require.NoError(t, verb())
		}
	}
	require.Greater(t, failed, len(verbs))
	all, err := loop.List()
	require.NoError(t, err)
	number := numberOf(t, testDisk{device: r.device(s)})
	for _, d := range all {
		status, err := loop.Status(d.Path)
		require.False(t, err == nil && status.BackingDevice == number && !status.Ending, "a hold is left: %+v", status)
	}
}

// device is what a volume's link leads to.
func (r *rig) device(s *volume.Spec) string {
	r.t.Helper()
	to, err := os.Readlink(s.PersistentVolume.Spec.Local.Path)
	require.NoError(r.t, err)
	return to
}
