package local_test

import (
	"context"
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

// enough is a number of descriptors that suffices for the plugin's own work.
const enough = 16

// TestFewDescriptors checks that a SetUp which fails for lack of descriptors has no final
// error: a later SetUp may succeed.
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

// TestFewDescriptorsForADisk checks that a shortage of descriptors is no final error of a
// disk either, and that the disk is not taken for another one.
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

// TestFewDescriptorsForARawDevice checks that a shortage of descriptors is no final error of
// mapping or unmapping a raw device either.
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
		func() error { _, err := m.MapPodDevice(t.Context(), volume.BlockVolumePaths{}); return err },
		func() error { return u.UnmapPodDevice(t.Context()) },
		func() error { return u.TearDownDevice(t.Context(), volume.BlockVolumePaths{GlobalMapPath: global}) },
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
	all, err := loop.List(context.Background())
	require.NoError(t, err)
	number := numberOf(t, testDisk{device: r.device(s)})
	for _, d := range all {
		status, err := loop.Status(context.Background(), d.Path)
		require.False(t, err == nil && status.BackingDevice == number && !status.Ending, "a hold is left: %+v", status)
	}
}

// device returns the device to which a volume's link leads.
func (r *rig) device(s *volume.Spec) string {
	r.t.Helper()
	to, err := os.Readlink(s.PersistentVolume.Spec.Local.Path)
	require.NoError(r.t, err)
	return to
}
