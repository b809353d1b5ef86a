package driver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume/volumetest"
	"google.golang.org/grpc/codes"
)

// TestTargetsHideNoFilesOfTheDriver: no volume is mounted over the records, the socket or the plugin's
// directory, whether or not the kubelet's directory is the root of the driver.
func TestTargetsHideNoFilesOfTheDriver(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	base := filepath.Dir(r.root)
	r.change = func(c *driver.Config) { c.ControllerDir = r.kubelet + "/records" }
	r.stop()
	require.NoError(t, os.MkdirAll(r.kubelet+"/records", 0o700))
	r.root = r.kubelet + "/plugins/fake.example.com"
	require.NoError(t, os.MkdirAll(r.root, 0o750))
	r.start()
	v := r.ready("pvc-1", manyWriters)
	refuse := func(paths ...string) {
		t.Helper()
		for _, target := range paths {
			requireCode(t, codes.InvalidArgument, r.publish(v, target, manyWriters))
			requireCode(t, codes.InvalidArgument, r.unpublish(v, target))
			require.False(t, r.isMounted(target))
		}
	}
	refuse(r.root, r.kubelet+"/plugins", r.root+"/csi.sock", r.root+"/plugins/volumekit.io/csi/fake.example.com/node",
		r.root+"/plugins/volumekit.io", r.root+"/plugins/volumekit.io/fake/mounts", r.root+"/pods",
		r.kubelet+"/records", r.kubelet+"/records/fake.example.com/volumes")
	require.NoError(t, r.publish(v, r.root+"/pods/a/mount", manyWriters))
	require.NoError(t, r.unpublish(v, r.root+"/pods/a/mount"))

	r.stop()
	r.change, r.root = nil, r.kubelet
	r.kubelet = base + "/other"
	require.NoError(t, os.Mkdir(r.kubelet, 0o750))
	require.NoError(t, os.MkdirAll(r.staging(), 0o750))
	r.start()
	v = r.ready("pvc-2", manyWriters)
	refuse(r.root+"/plugins", r.root+"/plugins/volumekit.io/csi/fake.example.com", r.root+"/plugins_registry")
	device := r.root + "/plugins/kubernetes.io/csi/volumeDevices/publish/pvc-2/a"
	for _, target := range []string{device, r.root + "/pods/a/mount", r.kubelet + "/a"} {
		require.NoError(t, r.publish(v, target, manyWriters))
		require.NoError(t, r.unpublish(v, target))
	}
}

// TestUnpublishLeavesForeignMounts: a mount of another program stays, and a path without a mount is OK.
func TestUnpublishLeavesForeignMounts(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v := r.ready("pvc-1", manyWriters)
	foreign := r.kubelet + "/plugins/foreign"
	require.NoError(t, os.MkdirAll(foreign, 0o750))
	require.NoError(t, r.unpublish(v, foreign))
	require.DirExists(t, foreign)
	require.NoError(t, r.mounter.Mount(t.Context(), mount.Request{Source: "tmpfs", Target: foreign, FSType: "tmpfs"}))
	requireCode(t, codes.FailedPrecondition, r.unpublish(v, foreign))
	require.True(t, r.isMounted(foreign))
	r.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Err: context.DeadlineExceeded, Times: 1})
	require.Error(t, r.unpublish(v, foreign))
	require.True(t, r.isMounted(foreign))
}

// TestUnpublishWithUnreadableRecord: only the volume of an unreadable record is unpublished from its path.
func TestUnpublishWithUnreadableRecord(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v, other := r.ready("pvc-1", manyWriters), r.create("pvc-2")
	require.NoError(t, r.publish(v, r.target("a"), manyWriters))
	r.stop()
	files, err := filepath.Glob(r.root + "/plugins/volumekit.io/csi/*/node/*.json")
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.WriteFile(files[0], []byte("{"), 0o600))
	r.start()
	requireCode(t, codes.Aborted, r.unpublish(other, r.target("a")))
	require.True(t, r.isMounted(r.target("a")))
	require.NoError(t, r.unpublish(other, r.target("b")))
	requireCode(t, codes.Internal, r.unpublish(v, r.target("a")))
	require.False(t, r.isMounted(r.target("a")))
}

// TestUnpublishReservesThePath: no other volume is published at a path while it is unpublished.
func TestUnpublishReservesThePath(t *testing.T) {
	r := newRig(t, volumetest.FakeConfig{}, nil)
	v, other := r.ready("pvc-1", manyWriters), r.ready("pvc-2", manyWriters)
	r.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Delay: time.Hour, Times: 1})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: v.VolumeId, TargetPath: r.target("a")})
		ended <- err
	}()
	require.Eventually(t, func() bool { return r.plugin.Calls(volumetest.ConstructVolumeSpec) == 1 }, time.Minute, time.Millisecond)
	requireCode(t, codes.AlreadyExists, r.publish(other, r.target("a"), manyWriters))
	cancel()
	require.Error(t, <-ended)
	require.Eventually(t, func() bool { return r.publish(other, r.target("a"), manyWriters) == nil }, time.Minute, time.Millisecond)
}
