package manager_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

type remountPlugin struct{ *volumetest.FakePlugin }

// TestMarkRemountRequired: a request sets up again the volumes whose content follows an object, and
// so does each refresh.
func TestMarkRemountRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Refresh = -1
		n.claim("a")
		following := &remountPlugin{FakePlugin: n.plugin}
		plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, following)
		require.NoError(t, err)
		n.config.Plugins = plugins
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		time.Sleep(time.Hour)
		before := n.plugin.Calls(volumetest.SetUp)
		m.MarkRemountRequired("1")
		m.MarkRemountRequired("2")
		time.Sleep(time.Second)
		require.Equal(t, before+1, n.plugin.Calls(volumetest.SetUp))
		stop()

		n.config.Refresh = time.Minute
		m, stop = n.run()
		n.up(m, pod)
		before = n.plugin.Calls(volumetest.SetUp)
		time.Sleep(10*time.Minute + time.Second)
		require.Equal(t, before+10, n.plugin.Calls(volumetest.SetUp))
		require.Equal(t, 1, n.mountCount())
		stop()
	})
}

func (f *remountPlugin) RequiresRemount(*volume.Spec) bool { return true }

func (f *remountPlugin) Unwrap() volume.VolumePlugin { return nil }
