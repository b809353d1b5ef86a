package manager_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
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

// A renewablePlugin is for volumes that other programs may replace. It records its set-ups.
type renewablePlugin struct {
	*volumetest.FakePlugin
	mu     sync.Mutex
	setUps []bool // whether as a remount
}

// taken returns the set-ups since the last call.
func (p *renewablePlugin) taken() (setUps []bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	setUps, p.setUps = p.setUps, nil
	return setUps
}

func (p *renewablePlugin) IsRenewable(*volume.Spec) bool { return true }

func (p *renewablePlugin) Unwrap() volume.VolumePlugin { return nil }

func (p *renewablePlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return &renewableMounter{m, p}, err
}

type renewableMounter struct {
	volume.Mounter
	plugin *renewablePlugin
}

func (m *renewableMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	m.plugin.mu.Lock()
	m.plugin.setUps = append(m.plugin.setUps, args.IsRemount)
	m.plugin.mu.Unlock()
	return m.Mounter.SetUp(ctx, args)
}

// renewable gives the node a plugin with renewable volumes.
func (n *node) renewable() *renewablePlugin {
	n.Helper()
	p := &renewablePlugin{FakePlugin: n.plugin}
	plugins, err := volume.NewVolumePluginMgr(n.Context(), n.host, p)
	require.NoError(n, err)
	n.config.Plugins = plugins
	return p
}

var newContainer = manager.WaitOptions{NewContainer: true, EndOnFinalError: true}

// TestNewContainer: each wait for a new container sets a renewable volume up again, without
// IsRemount. Nothing else does, and a restart sets it up as a remount.
func TestNewContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a", "b")
		plugin := n.renewable()
		m, stop := n.runUp(pod)
		require.NoError(t, m.WaitForAttachAndMount(t.Context(), pod))
		m.MarkRemountRequired("1")
		time.Sleep(time.Hour)
		require.Equal(t, []bool{false, false}, plugin.taken())
		for range 2 {
			require.NoError(t, m.WaitForVolumes(t.Context(), pod, newContainer))
			require.Equal(t, []bool{false, false}, plugin.taken())
		}
		stop()

		m, stop = n.run()
		n.up(m, pod)
		require.Equal(t, []bool{true, true}, plugin.taken())
		require.NoError(t, m.WaitForVolumes(t.Context(), pod, newContainer))
		require.Equal(t, []bool{false, false}, plugin.taken())
		require.Equal(t, 2, n.mountCount())
		stop()
	})
}

// TestNewContainerWaits: a volume that cannot be renewed holds the new container back, and is up for
// the others.
func TestNewContainerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		pod := podWith("1", "a")
		n.renewable()
		m, stop := n.runUp(pod)
		gone, final := volume.AsTransient(errors.New("gone")), errors.New("refused")
		for isFinal, cause := range map[bool]error{false: gone, true: final} {
			n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: cause})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			err := m.WaitForVolumes(ctx, pod, newContainer)
			cancel()
			require.ErrorIs(t, err, cause)
			require.Equal(t, isFinal, errors.Is(err, manager.ErrFinal))
			require.NoError(t, m.WaitForAttachAndMount(endedContext(t), pod))
			require.Equal(t, 1, n.mountCount())
			n.plugin.ClearFaults()
			begin := time.Now()
			require.NoError(t, m.WaitForVolumes(t.Context(), pod, newContainer))
			require.Less(t, time.Since(begin), time.Second, "a request does not wait for the pause after the failure")
		}
		stop()
	})
}

// TestNewContainerOfOtherPlugin: no other volume is set up again.
func TestNewContainerOfOtherPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		require.NoError(t, m.WaitForVolumes(t.Context(), pod, newContainer))
		require.Equal(t, 1, n.plugin.Calls(volumetest.SetUp))
		require.Error(t, m.WaitForVolumes(endedContext(t), podWith("2", "a"), newContainer))
		stop()
	})
}

// TestNewContainerOfReturnedPod: the wait ends for a pod that goes and returns meanwhile.
func TestNewContainerOfReturnedPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		pod := podWith("1", "a")
		n.renewable()
		m, stop := n.runUp(pod)
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: volume.AsTransient(errors.New("gone"))})
		ended := make(chan error, 1)
		go func() { ended <- m.WaitForVolumes(t.Context(), pod, newContainer) }()
		time.Sleep(time.Minute)
		n.source.RemovePod("1")
		n.down(m, pod)
		n.plugin.ClearFaults()
		n.source.SetPod(pod)
		n.up(m, pod)
		require.NoError(t, <-ended)
		stop()
	})
}
