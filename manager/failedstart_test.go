package manager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestUnregisteredPluginIsReported: an operation that cannot start because its plugin is no longer registered is
// reported once, like any other failure.
func TestUnregisteredPluginIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{NoDeviceMount: true})
		n.claim("a")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		n.source.RemovePod("1")
		plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, volumetest.NewFakePlugin(volumetest.FakeConfig{Name: "volumekit.io/other", Mounter: n.kernel}))
		require.NoError(t, err)
		n.config.Plugins = plugins
		n.mu.Lock()
		n.events = nil
		n.mu.Unlock()
		m, stop := n.run()
		time.Sleep(time.Hour)
		require.Equal(t, []string{manager.FailedUnMount}, n.reasons())
		require.Equal(t, "uncertain", m.State().Volumes[0].Pods[0].State)
		require.Equal(t, 1, n.mountCount(), "it is not touched")
		stop()
	})
}
