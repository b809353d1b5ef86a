package manager_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestUnmountedObstacleEndsBackoff: an operation that fails because of a foreign mount is retried as soon as
// that mount is unmounted, even during a long backoff. Mounts at other paths do not end the
// backoff.
func TestUnmountedObstacleEndsBackoff(t *testing.T) {
	for name, test := range map[string]struct {
		fake volumetest.FakeConfig
		at   func(n *node) string
	}{
		"of the pod": {perPod, func(n *node) string {
			path, err := n.host.PodVolumeDir("1", n.plugin.GetPluginName(), "a")
			require.NoError(n, err)
			return path
		}},
		"of all pods": {volumetest.FakeConfig{NoAttach: true}, func(n *node) string {
			mounter, err := n.plugin.NewDeviceMounter()
			require.NoError(n, err)
			path, err := mounter.GetDeviceMountPath(n.plugin.NewSpec("a", n.dir+"/disk-a"))
			require.NoError(n, err)
			return path
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, test.fake)
				n.config.Resync = -1
				n.claim("a")
				at := test.at(n)
				n.mountForeign(at)
				m, stop := n.run()
				defer stop()
				pod := podWith("1", "a")
				n.source.SetPod(pod)
				time.Sleep(time.Hour)
				require.ErrorIs(t, m.WaitForAttachAndMount(endedContext(t), pod), volume.ErrAlreadyMounted)

				calls := n.mountCalls()
				for range 30 {
					n.mountForeign(n.dir + "/disk-a")
					time.Sleep(time.Second)
					require.NoError(t, n.kernel.Unmount(t.Context(), n.dir+"/disk-a"))
					time.Sleep(time.Second)
				}
				require.LessOrEqual(t, n.mountCalls(), calls+2, "tried because of a mount elsewhere")

				for calls = n.mountCalls(); n.mountCalls() == calls; {
					time.Sleep(time.Second)
				}
				require.NoError(t, n.kernel.Unmount(t.Context(), at)) // the next try would be in two minutes
				time.Sleep(2 * time.Second)
				require.NoError(t, m.WaitForAttachAndMount(endedContext(t), pod))
			})
		})
	}
}

func (n *node) mountForeign(at string) {
	n.Helper()
	require.NoError(n, os.MkdirAll(at, 0o755))
	require.NoError(n, n.kernel.Mount(n.Context(), mount.Request{Source: "theirs", Target: at, FSType: "tmpfs"}))
}

// mountCalls counts MountDevice and SetUp calls: one for an attempt, or two with a device mount.
func (n *node) mountCalls() int {
	return n.plugin.Calls(volumetest.MountDevice) + n.plugin.Calls(volumetest.SetUp)
}
