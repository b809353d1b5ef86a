package flexvolume

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestManager: a manager attaches and mounts the volumes of a driver, finds them after a restart, and takes them down,
// each step by one call.
func TestManager(t *testing.T) {
	for attach, want := range map[bool][2][]string{
		false: {{"init", "mount"}, {"unmount"}},
		true:  {{"init", "attach", "waitforattach", "mountdevice", "mount"}, {"unmount", "unmountdevice", "detach"}},
	} {
		d := newFakeDriver(t, mounttest.NewFake(mount.Config{}))
		d.attach = attach
		root := t.TempDir()
		inPod := v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: driverName}}}
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", UID: "uid"},
			Spec: v1.PodSpec{
				Volumes:    []v1.Volume{inPod},
				Containers: []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			},
		}
		require.NoError(t, os.Mkdir(filepath.Join(d.dir, "data"), 0o755))
		run := func(source *manager.MemorySource, work func(ctx context.Context, m *manager.Manager)) {
			host, err := volume.NewHost(t.Context(), root, volume.WithNodeName("node-1"))
			require.NoError(t, err)
			mgr, err := volume.NewVolumePluginMgr(t.Context(), host, d.plugin())
			require.NoError(t, err)
			m, err := manager.New(manager.Config{Plugins: mgr, Mounter: d.mounter, Pods: source, Claims: source})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }()
			work(ctx, m)
			cancel()
			require.NoError(t, <-ended)
		}
		source := manager.NewMemorySource()
		require.NoError(t, source.SetPod(pod))
		run(source, func(ctx context.Context, m *manager.Manager) {
			require.NoError(t, m.WaitForAttachAndMount(ctx, pod))
		})
		require.Equal(t, want[0], d.record())
		run(source, func(ctx context.Context, m *manager.Manager) {
			require.NoError(t, m.WaitForAttachAndMount(ctx, pod))
			calls := d.record()
			require.NotContains(t, calls, "mount", "the volume is mounted")
			require.NotContains(t, calls, "mountdevice")
			source.RemovePod(pod.UID)
			require.NoError(t, m.WaitForAllPodsUnmount(ctx))
			for attach && !d.hasCalled("detach") {
				require.NoError(t, ctxend.Sleep(ctx, time.Millisecond))
			}
		})
		require.Equal(t, want[1], d.record())
	}
}
