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

// What fails because of a mount of somebody else's is tried again when that has gone,
// however long the pause is; and not for other mounts that come and go.
func TestObstacleGoes(t *testing.T) {
	for name, test := range map[string]struct {
		fake volumetest.FakeConfig
		at   func(n *node) string
	}{
		"of the pod": {own, func(n *node) string {
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
				require.ErrorIs(t, m.WaitForAttachAndMount(ended(t), pod), volume.ErrAlreadyMounted)

				calls := n.calls()
				for range 30 {
					n.mountForeign(n.dir + "/disk-a")
					time.Sleep(time.Second)
					require.NoError(t, n.kernel.Unmount(t.Context(), n.dir+"/disk-a"))
					time.Sleep(time.Second)
				}
				require.LessOrEqual(t, n.calls(), calls+2, "tried because of a mount elsewhere")

				for calls = n.calls(); n.calls() == calls; {
					time.Sleep(time.Second)
				}
				require.NoError(t, n.kernel.Unmount(t.Context(), at)) // the next try would be in two minutes
				time.Sleep(2 * time.Second)
				require.NoError(t, m.WaitForAttachAndMount(ended(t), pod))
			})
		})
	}
}

func (n *node) mountForeign(at string) {
	n.Helper()
	require.NoError(n, os.MkdirAll(at, 0o755))
	require.NoError(n, n.kernel.Mount(n.Context(), mount.Request{Source: "theirs", Target: at, FSType: "tmpfs"}))
}

// calls counts those that bring volumes up: a try is one, or two for a device.
func (n *node) calls() int {
	return n.plugin.Calls(volumetest.MountDevice) + n.plugin.Calls(volumetest.SetUp)
}
