package driver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
)

// A devicePlugin maps volumes to a file in place of a device.
type devicePlugin struct {
	*volumetest.FakePlugin
	device  *string
	failure *error // of a map, after the directory of the pod has been made
}

func (p devicePlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	m, err := p.FakePlugin.NewBlockVolumeMapper(spec, pod)
	return deviceMapper{m, p}, err
}

type deviceMapper struct {
	volume.BlockVolumeMapper
	devicePlugin
}

func (m deviceMapper) MapPodDevice(ctx context.Context, paths volume.BlockVolumePaths) (string, error) {
	if *m.failure != nil {
		dir, _ := m.GetPodDeviceMapPath()
		return "", errors.Join(os.MkdirAll(dir, 0o750), *m.failure)
	}
	_, err := m.BlockVolumeMapper.MapPodDevice(ctx, paths)
	return *m.device, err
}

// newDeviceRig returns a driver of raw devices, and one that is staged.
func newDeviceRig(t *testing.T) (r *rig, v *csipb.Volume) {
	t.Helper()
	kernel := mounttest.NewFake(mount.Config{})
	r = newRig(t, volumetest.FakeConfig{NoAttach: true}, nil)
	r.stop()
	r.mounter = kernel
	r.device = r.root + "/device"
	require.NoError(t, os.WriteFile(r.device, []byte("content"), 0o600))
	r.change = func(c *driver.Config) { c.Plugin, c.Mounter = devicePlugin{r.plugin, &r.device, &r.failure}, kernel }
	r.start()
	req := createRequest("pvc-1")
	req.VolumeCapabilities = []*csipb.VolumeCapability{block(manyWriters)}
	created, err := r.controller.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, r.stageDevice(created.Volume))
	return r, created.Volume
}

func (r *rig) stageDevice(v *csipb.Volume) error {
	_, err := r.node.NodeStageVolume(r.t.Context(), &csipb.NodeStageVolumeRequest{
		VolumeId: v.VolumeId, VolumeContext: v.VolumeContext, StagingTargetPath: r.staging(), VolumeCapability: block(manyWriters),
	})
	return err
}

func (r *rig) publishDevice(v *csipb.Volume, target string) error {
	req := r.publishRequest(v, target, manyWriters)
	req.VolumeCapability = block(manyWriters)
	_, err := r.node.NodePublishVolume(r.t.Context(), req)
	return err
}

// requireNoPods requires that no directory of a pod of the plugin is left: each target path has another one.
func (r *rig) requireNoPods() {
	r.t.Helper()
	left, err := filepath.Glob(r.root + "/pods/*")
	require.NoError(r.t, err)
	require.Empty(r.t, left)
}

// TestBlock: a raw device is bound at a file at the target path, across restarts, and nothing is left.
func TestBlock(t *testing.T) {
	r, v := newDeviceRig(t)
	kernel, device := r.mounter.(*mounttest.Fake), r.root+"/device"
	_, err := r.controller.CreateVolume(t.Context(), createRequest("pvc-1"))
	requireCode(t, codes.AlreadyExists, err)
	r.restart()
	require.NoError(t, r.stageDevice(v))
	r.restart()
	publish := r.publishRequest(v, r.target("a"), manyWriters)
	_, err = r.node.NodePublishVolume(t.Context(), publish)
	requireCode(t, codes.FailedPrecondition, err) // staged as a device
	publish.VolumeCapability = block(manyWriters)

	r.failure = os.ErrPermission
	_, err = r.node.NodePublishVolume(t.Context(), publish)
	require.Error(t, err)
	r.requireNoPods()
	r.failure = nil
	r.device = "" // and no other path of it is known
	_, err = r.node.NodePublishVolume(t.Context(), publish)
	require.ErrorContains(t, err, "no path of a device")
	r.requireNoPods()
	r.device = device
	kernel.Inject(mounttest.Fault{Op: mounttest.OpMount, Times: 1, Err: os.ErrPermission})
	_, err = r.node.NodePublishVolume(t.Context(), publish)
	require.Error(t, err)
	require.NoFileExists(t, r.target("a"))
	r.requireNoPods()
	for range 2 {
		_, err = r.node.NodePublishVolume(t.Context(), publish)
		require.NoError(t, err)
		r.restart()
	}
	require.True(t, r.isMounted(r.target("a")))
	info, err := os.Lstat(r.target("a"))
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
	stats, err := r.node.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: v.VolumeId, VolumePath: r.target("a")})
	require.NoError(t, err)
	require.Len(t, stats.Usage, 1)
	require.EqualValues(t, 4096, stats.Usage[0].Total)
	// A kubelet binds the target path below its directory for the device, and measures it there.
	require.NoError(t, os.Link(r.target("a"), r.kubelet+"/plugins/pod"))
	require.NoError(t, os.WriteFile(r.kubelet+"/plugins/foreign", nil, 0o600))
	for at, code := range map[string]codes.Code{
		"/plugins/pod": codes.OK, "/plugins/foreign": codes.NotFound, "/plugins/missing": codes.NotFound, "/../device": codes.NotFound,
	} {
		_, err = r.node.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: v.VolumeId, VolumePath: r.kubelet + at})
		requireCode(t, code, err)
	}
	require.NoError(t, os.Remove(r.kubelet+"/plugins/pod"))

	requireCode(t, codes.FailedPrecondition, r.unstage(v))
	for range 2 {
		require.NoError(t, r.unpublish(v, r.target("a")))
		r.restart()
	}
	require.NoFileExists(t, r.target("a"))
	r.requireNoPods()
	require.NoError(t, r.unstage(v))
	require.NoError(t, r.delete(v.VolumeId))
	r.requireNoRecords()
	require.FileExists(t, device)
}
