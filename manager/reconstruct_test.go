package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A blockedPlugin reconstructs no volume whose name begins with "slow" until unblock is closed. It
// ignores the end of the context.
type blockedPlugin struct {
	*volumetest.FakePlugin
	unblock chan struct{}
}

func (p blockedPlugin) ConstructVolumeSpec(ctx context.Context, name, path string) (volume.ReconstructedVolume, error) {
	if strings.HasPrefix(name, "slow") {
		<-p.unblock
	}
	return p.FakePlugin.ConstructVolumeSpec(context.WithoutCancel(ctx), name, path)
}

// TestStartDoesNotWaitForPlugin: the start waits only briefly for a plugin that does not respond,
// regardless of the number of its directories. Late results are applied when they arrive.
func TestStartDoesNotWaitForPlugin(t *testing.T) {
	for _, slow := range []int{1, 64, 640} {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				p := blockedPlugin{n.plugin, make(chan struct{})}
				var err error
				n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host, p)
				require.NoError(t, err)
				n.claim("wanted")
				pod := podWith("wanted", "wanted")
				require.NoError(t, n.source.SetPod(pod))
				for i := range slow {
					dir := fmt.Sprintf("root/pods/%d/volumes/volumekit.io~fake/slow-%d", i, i)
					require.NoError(t, os.MkdirAll(filepath.Join(n.dir, dir), 0o755))
				}
				begin := time.Now()
				m, stop := n.run()
				n.up(m, pod)
				require.Equal(t, time.Second, time.Since(begin), "of a clock that is not the machine's")
				require.Len(t, m.State().Leftovers, slow)
				down := podWith("0")
				require.ErrorContains(t, m.WaitForUnmount(endedContext(t), down), "not reconstructed the volume in time")

				close(p.unblock)
				n.down(m, down)
				require.Equal(t, time.Second, time.Since(begin), "of a clock that is not the machine's")
				for i := range slow {
					n.down(m, podWith(types.UID(fmt.Sprint(i))))
				}
				require.Empty(t, m.State().Leftovers)
				left, err := filepath.Glob(filepath.Join(n.dir, "root/pods/*/volumes/volumekit.io~fake/slow-*"))
				require.NoError(t, err)
				require.Empty(t, left)
				stop()
			})
		})
	}
}

// TestLateReconstructionKeepsAttachment: a pod whose directory is reconstructed late is added to the existing volume. A
// volume with an unrecognized directory is not detached.
func TestLateReconstructionKeepsAttachment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{NoDeviceMount: true})
		n.claim("a")
		one, two := podWith("1", "a"), podWith("2", "a")
		_, stop := n.runUp(one, two)
		stop()
		files, err := filepath.Glob(n.host.Root() + "/plugins/volumekit.io/manager/volumes/*.json")
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.NoError(t, os.WriteFile(files[0], nil, 0o600)) // torn
		n.source.RemovePod("1", "2")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Err: volume.ErrUncertain, Times: 1})
		m, stop := n.run()
		time.Sleep(time.Minute)
		left := append(n.mountsBelow("/1/"), n.mountsBelow("/2/")...)
		require.Len(t, left, 1)
		pod := map[bool]*v1.Pod{true: one, false: two}[strings.Contains(left[0].Mountpoint, "/1/")]
		n.requireWaitForUnmountFails(m, pod, "unrecognized volume")
		require.Zero(t, n.plugin.Calls(volumetest.Detach), "detached below what is not understood")
		time.Sleep(time.Hour)
		n.down(m, pod)
		time.Sleep(time.Second)
		require.Zero(t, n.mountCount())
		require.Equal(t, 1, n.plugin.Calls(volumetest.Detach))
		stop()
	})
}

// TestHangingReconstructionDelaysNoOther: a plugin that does not respond for one volume of an earlier run
// delays no other volume.
func TestHangingReconstructionDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		n.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Delay: 1000 * time.Hour, Times: 1})
		n.source.RemovePod("1")
		n.source.SetPod(podWith("2", "b"))
		m, stop := n.run()
		n.up(m, podWith("2", "b"))
		require.Len(t, m.State().Leftovers, 1)
		n.down(m, pod)
		stop()
	})
}

// A countingStuckPlugin reconstructs no volume until end is closed. It ignores the end of the context.
type countingStuckPlugin struct {
	*volumetest.FakePlugin
	end     chan struct{}
	waiting atomic.Int64
}

// TestHangingPluginIsQueriedOnce: a plugin is not queried again about a directory while a query is
// in flight. After the query has timed out, the next rescan queries the plugin again.
func TestHangingPluginIsQueriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		n.source.RemovePod("1")
		p := &countingStuckPlugin{FakePlugin: n.plugin, end: make(chan struct{})}
		plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, p)
		require.NoError(t, err)
		n.config.Plugins = plugins
		m, stop := n.run()
		defer stop()
		time.Sleep(24 * time.Hour) // and so many resyncs
		require.EqualValues(t, 1, p.waiting.Load())
		require.ErrorContains(t, m.State().Leftovers[0].Err, "not reconstructed the volume in time")
		require.ErrorContains(t, m.WaitForUnmount(endedContext(t), pod), "not reconstructed the volume in time")
		close(p.end)
		n.down(m, pod)
		require.Zero(t, n.mountCount())
	})
}

func (p *countingStuckPlugin) ConstructVolumeSpec(ctx context.Context, name, path string) (volume.ReconstructedVolume, error) {
	p.waiting.Add(1)
	<-p.end
	p.waiting.Add(-1)
	return p.FakePlugin.ConstructVolumeSpec(ctx, name, path)
}
