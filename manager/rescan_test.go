package manager_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// A stuckPlugin does not say what a volume is before it is told to, whatever its context.
type stuckPlugin struct {
	*volumetest.FakePlugin
	end   chan struct{}
	stuck atomic.Int64
}

func (p *stuckPlugin) ConstructVolumeSpec(ctx context.Context, name, path string) (*volume.Spec, error) {
	p.stuck.Add(1)
	<-p.end
	p.stuck.Add(-1)
	return p.FakePlugin.ConstructVolumeSpec(ctx, name, path)
}

// A plugin that does not answer is not asked again and again; when it does the volume is
// known at the next rescan.
func TestPluginThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		n.source.RemovePod("1")
		p := &stuckPlugin{FakePlugin: n.plugin, end: make(chan struct{})}
		plugins, err := volume.NewVolumePluginMgr(n.host, p)
		require.NoError(t, err)
		n.config.Plugins = plugins
		m, stop := n.run()
		defer stop()
		time.Sleep(24 * time.Hour) // and so many resyncs
		require.EqualValues(t, 1, p.stuck.Load())
		require.ErrorContains(t, m.State().Leftovers[0].Err, "does not answer")
		require.ErrorContains(t, m.WaitForUnmount(ended(t), pod), "does not answer")
		close(p.end)
		n.down(m, pod)
		require.Zero(t, n.mounts())
	})
}
