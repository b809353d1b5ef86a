package driver_test

import (
	"context"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
)

// A groupPlugin records the groups that it receives.
type groupPlugin struct {
	*volumetest.FakePlugin
	attributes volume.Attributes
	given      chan *int64
}

func (p groupPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return groupMounter{m, p}, err
}

func (p groupPlugin) NewDeviceMounter() (volume.DeviceMounter, error) {
	m, err := p.FakePlugin.NewDeviceMounter()
	return groupDeviceMounter{m, p}, err
}

type groupMounter struct {
	volume.Mounter
	plugin groupPlugin
}

func (m groupMounter) GetAttributes() volume.Attributes { return m.plugin.attributes }

func (m groupMounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	m.plugin.given <- args.FsGroup
	args.FsGroup = nil
	return m.Mounter.SetUpAt(ctx, dir, args)
}

type groupDeviceMounter struct {
	volume.DeviceMounter
	plugin groupPlugin
}

func (m groupDeviceMounter) MountDevice(ctx context.Context, spec *volume.Spec, dir string, args volume.DeviceMounterArgs) error {
	m.plugin.given <- args.FsGroup
	args.FsGroup = nil
	return m.DeviceMounter.MountDevice(ctx, spec, dir, args)
}

// TestMountGroup: the plugin receives the group of a volume, two pods may have different groups, and a group that
// no file can have, or that the plugin would ignore, is refused.
func TestMountGroup(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	r.stop()
	given, attributes := make(chan *int64, 1), volume.Attributes{Managed: true}
	r.change = func(c *driver.Config) {
		c.Plugin, c.MountGroup = groupPlugin{r.plugin, attributes, given}, true
	}
	r.start()
	require.Contains(t, r.nodeCapabilities(), "VOLUME_MOUNT_GROUP")
	of := func(group string) *csipb.VolumeCapability {
		c := mounted(manyWriters)
		c.GetMount().VolumeMountGroup = group
		return c
	}
	v := r.create("pvc-1")
	r.attach(v, manyWriters)
	stage := func(group string) error {
		_, err := r.node.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{
			VolumeId: v.VolumeId, StagingTargetPath: r.staging(), VolumeCapability: of(group), VolumeContext: v.VolumeContext,
		})
		return err
	}
	publish := func(pod, group string) error {
		req := r.publishRequest(v, r.target(pod), manyWriters)
		req.VolumeCapability = of(group)
		_, err := r.node.NodePublishVolume(t.Context(), req)
		return err
	}
	requireGiven := func(group int64) {
		t.Helper()
		got := <-given
		require.NotNil(t, got)
		require.Equal(t, group, *got)
	}
	require.NoError(t, stage("2000"))
	requireGiven(2000)
	require.NoError(t, stage("3000"), "the caller may stage for another pod")
	requireGiven(3000)
	for range 2 {
		require.NoError(t, publish("a", "2000"))
		requireGiven(2000)
		r.restart()
	}
	require.NoError(t, publish("b", "0"))
	requireGiven(0)
	require.NoError(t, publish("c", ""))
	require.Nil(t, <-given)
	requireCode(t, codes.AlreadyExists, publish("a", "2001"))
	requireCode(t, codes.AlreadyExists, publish("a", ""))
	requireCode(t, codes.AlreadyExists, publish("c", "2000"))
	for _, bad := range []string{"-1", "users", "4294967295", "99999999999999999999", "1 "} {
		requireCode(t, codes.InvalidArgument, stage(bad))
		requireCode(t, codes.InvalidArgument, publish("d", bad))
	}

	attributes.Managed = false
	r.restart()
	requireCode(t, codes.InvalidArgument, publish("d", "2000"))
	require.NoError(t, publish("d", ""))
	require.Nil(t, <-given)
	attributes.ReadOnly = true
	r.restart()
	require.NoError(t, publish("e", "2000"), "the files of a read-only volume keep their group")
	requireGiven(2000)

	attributes = volume.Attributes{Managed: true}
	r.change = func(c *driver.Config) { c.Plugin = groupPlugin{r.plugin, attributes, given} }
	r.restart()
	require.NotContains(t, r.nodeCapabilities(), "VOLUME_MOUNT_GROUP")
	requireCode(t, codes.InvalidArgument, publish("f", "2000"))
}
