package driver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume/volumetest"
	"google.golang.org/grpc/codes"
)

// reboot restarts the driver on a new kernel, with records of an earlier start of the system.
func (r *rig) reboot(kernel mount.Interface) {
	t := r.t
	t.Helper()
	r.stop()
	now, err := bootid.Read()
	require.NoError(t, err)
	require.NotEmpty(t, now)
	files, err := filepath.Glob(r.root + "/plugins/volumekit.io/csi/*/node/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), now)
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), now, "an-earlier-start")), 0o600))
	}
	r.mounter = kernel
	r.start()
}

func newKernel() mount.Interface { return mounttest.NewFake(mount.Config{}) }

// TestDeleteAfterReboot: a volume that was in use before the system was started can be deleted, also with a
// target path that is left, and one that is in use again cannot.
func TestDeleteAfterReboot(t *testing.T) {
	for name, published := range map[string]bool{"staged": false, "published": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, volumetest.FakeConfig{NoAttach: true}, nil)
			v := r.create("pvc-1")
			require.NoError(t, r.stage(v, manyWriters))
			if published {
				require.NoError(t, r.publish(v, r.target("a"), manyWriters))
			}
			requireCode(t, codes.FailedPrecondition, r.delete(v.VolumeId))
			r.restart()
			requireCode(t, codes.FailedPrecondition, r.delete(v.VolumeId))
			r.reboot(newKernel())
			require.NoError(t, r.delete(v.VolumeId))
			r.requireNoRecords()
		})
	}
	r := newRig(t, volumetest.FakeConfig{NoAttach: true}, nil)
	v := r.create("pvc-1")
	require.NoError(t, r.stage(v, manyWriters))
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	r.reboot(newKernel())
	require.NoError(t, r.stage(v, manyWriters))
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	requireCode(t, codes.FailedPrecondition, r.delete(v.VolumeId))
	require.True(t, r.isMounted(r.target("a")))
	require.NoError(t, r.unpublish(v, r.target("a")))
	require.NoError(t, r.unstage(v))
	require.NoError(t, r.delete(v.VolumeId))
}

// TestPublishAfterReboot: a volume is published again after its staging alone, and the records from before the
// start refuse neither another path nor other arguments.
func TestPublishAfterReboot(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{NoAttach: true}, nil)
	v := r.create("pvc-1")
	require.NoError(t, r.stage(v, singleWriter))
	require.NoError(t, r.publish(v, r.target("a"), singleWriter))
	r.reboot(newKernel())
	requireCode(t, codes.FailedPrecondition, r.publish(v, r.target("a"), singleWriter))
	require.False(t, r.isMounted(r.target("a")))
	require.NoError(t, r.stage(v, singleWriter))
	require.NoError(t, r.publish(v, r.target("b"), singleWriter))
	requireCode(t, codes.FailedPrecondition, r.publish(v, r.target("a"), singleWriter))

	r.reboot(newKernel())
	require.NoError(t, r.stage(v, manyWriters), "with another mode")
	require.NoError(t, r.publish(v, r.target("b"), manyWriters))
	r.reboot(newKernel())
	require.NoError(t, r.stage(v, manyWriters))
	req := r.publishRequest(v, r.target("b"), manyWriters)
	req.Readonly = true
	_, err := r.node.NodePublishVolume(t.Context(), req)
	require.NoError(t, err)
	require.True(t, r.isReadOnly(r.target("b")))
	requireCode(t, codes.AlreadyExists, r.publish(v, r.target("b"), manyWriters))

	r.reboot(newKernel())
	_, err = r.node.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{
		VolumeId: v.VolumeId, StagingTargetPath: r.kubelet + "/plugins/other", VolumeCapability: mounted(manyWriters), VolumeContext: v.VolumeContext,
	})
	require.NoError(t, err, "at another path")
	requireCode(t, codes.FailedPrecondition, r.stage(v, manyWriters))
}

// TestTargetAfterReboot: a target path from before the start of the system is free for another volume, which stays
// there when the first one is unpublished or deleted.
func TestTargetAfterReboot(t *testing.T) {
	for name, undo := range map[string]func(r *rig, v *csipb.Volume) error{
		"unpublish": func(r *rig, v *csipb.Volume) error { return r.unpublish(v, r.target("a")) },
		"delete":    func(r *rig, v *csipb.Volume) error { return r.delete(v.VolumeId) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, volumetest.FakeConfig{NoAttach: true}, nil)
			first, second := r.create("pvc-1"), r.create("pvc-2")
			require.NoError(t, r.stage(first, manyWriters))
			require.NoError(t, r.publish(first, r.target("a"), manyWriters))
			r.reboot(newKernel())
			require.NoError(t, r.stage(second, manyWriters))
			require.NoError(t, r.publish(second, r.target("a"), manyWriters))
			r.restart()
			_, err := r.node.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: first.VolumeId, VolumePath: r.target("a")})
			requireCode(t, codes.NotFound, err)
			require.NoError(t, undo(r, first))
			require.True(t, r.isMounted(r.target("a")))
			if name == "unpublish" {
				require.NoError(t, r.stage(first, manyWriters))
				requireCode(t, codes.AlreadyExists, r.publish(first, r.target("a"), manyWriters))
				requireCode(t, codes.NotFound, r.unpublish(first, r.target("a")))
			}
			require.NoError(t, r.unpublish(second, r.target("a")))
			require.False(t, r.isMounted(r.target("a")))
		})
	}
}

// TestTargetOfDeviceAfterReboot is TestTargetAfterReboot for raw devices: the plugin's mapping of the first one is
// removed, and the second one stays.
func TestTargetOfDeviceAfterReboot(t *testing.T) {
	r, first := newDeviceRig(t)
	req := createRequest("pvc-2")
	req.VolumeCapabilities = []*csipb.VolumeCapability{block(manyWriters)}
	created, err := r.controller.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	second := created.Volume
	require.NoError(t, r.publishDevice(first, r.target("a")))
	kernel := mounttest.NewFake(mount.Config{})
	change := r.change
	r.change = func(c *driver.Config) {
		change(c)
		c.Mounter = kernel
	}
	r.reboot(kernel)
	require.NoError(t, r.stageDevice(second))
	require.NoError(t, r.publishDevice(second, r.target("a")))
	mapped := func() []string {
		links, err := filepath.Glob(r.root + "/pods/*/volumeDevices/*/*")
		require.NoError(t, err)
		return links
	}
	require.Len(t, mapped(), 2)
	require.NoError(t, r.unpublish(first, r.target("a")))
	require.Len(t, mapped(), 1)
	require.True(t, r.isMounted(r.target("a")))
	require.NoError(t, r.unpublish(second, r.target("a")))
	require.Empty(t, mapped())
	require.NoFileExists(t, r.target("a"))
}

// TestFailedPublicationAfterReboot: a failed publication is forgotten, if the recorded one was of an earlier start.
func TestFailedPublicationAfterReboot(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{NoAttach: true}, nil)
	v := r.create("pvc-1")
	require.NoError(t, r.stage(v, singleWriter))
	require.NoError(t, r.publish(v, r.target("a"), singleWriter))
	r.reboot(newKernel())
	require.NoError(t, r.stage(v, singleWriter))
	r.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: os.ErrPermission, Times: 1})
	require.Error(t, r.publish(v, r.target("a"), singleWriter))
	require.NoError(t, r.publish(v, r.target("b"), singleWriter))
}

// TestDeleteDeviceAfterReboot: the same as TestDeleteAfterReboot, for a raw device.
func TestDeleteDeviceAfterReboot(t *testing.T) {
	r, v := newDeviceRig(t)
	require.NoError(t, r.publishDevice(v, r.target("a")))
	requireCode(t, codes.FailedPrecondition, r.delete(v.VolumeId))
	kernel := mounttest.NewFake(mount.Config{})
	change := r.change
	r.change = func(c *driver.Config) {
		change(c)
		c.Mounter = kernel
	}
	r.reboot(kernel)
	require.NoError(t, r.delete(v.VolumeId))
	r.requireNoRecords()
	require.NoFileExists(t, r.target("a"))
}

// TestUnpublishDeviceWithoutRecord: a raw device is unpublished after the records were lost, and a foreign file
// stays.
func TestUnpublishDeviceWithoutRecord(t *testing.T) {
	r, v := newDeviceRig(t)
	require.NoError(t, r.publishDevice(v, r.target("a")))
	r.stop()
	require.NoError(t, os.RemoveAll(r.root+"/plugins/volumekit.io/csi"))
	r.start()
	require.NoError(t, os.MkdirAll(filepath.Dir(r.target("b")), 0o750))
	require.NoError(t, os.WriteFile(r.target("b"), []byte("foreign"), 0o600))
	require.NoError(t, r.unpublish(v, r.target("b")))
	require.FileExists(t, r.target("b"))
	require.NoError(t, r.unpublish(v, r.target("a")))
	require.False(t, r.isMounted(r.target("a")))
	require.NoFileExists(t, r.target("a"))
	require.NoError(t, r.unpublish(v, r.target("a")), "repeated")
}

// TestFailedStagingAfterReboot: a staging that fails after a start of the system leaves no record of the
// earlier one, so that the volume can be deleted.
func TestFailedStagingAfterReboot(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{NoAttach: true}, nil)
	v := r.create("pvc-1")
	require.NoError(t, r.stage(v, manyWriters))
	kernel := mounttest.NewFake(mount.Config{})
	r.reboot(kernel)
	kernel.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: os.ErrPermission})
	require.Error(t, r.stage(v, manyWriters))
	kernel.ClearFaults()
	requireCode(t, codes.FailedPrecondition, r.publish(v, r.target("a"), manyWriters))
	require.NoError(t, r.delete(v.VolumeId))
	r.requireNoRecords()
}
