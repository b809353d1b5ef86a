package manager_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// A slowPlugin mounts, and then waits until its context ends.
type slowPlugin struct {
	*volumetest.FakePlugin
	ended func(ctx context.Context) error // what it says then
}

func (p slowPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return slowMounter{m, p}, err
}

type slowMounter struct {
	volume.Mounter
	slowPlugin
}

func (m slowMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	if err := m.Mounter.SetUp(ctx, args); err != nil {
		return err
	}
	<-ctx.Done()
	return m.ended(ctx)
}

// TestCutShort: a set-up that was ended, by the pod that goes or by its deadline, may
// have done something, unless it says that it has not.
func TestCutShort(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration // that the pod goes
		ended func(ctx context.Context) error
		left  int
	}{
		"the pod goes":  {time.Second, context.Context.Err, 0},
		"its deadline":  {600*time.Second + 200*time.Millisecond, context.Context.Err, 0},
		"another error": {time.Second, func(context.Context) error { return fmt.Errorf("signal: killed") }, 0},
		// That is not true here, which shows that it is believed.
		"nothing was done": {time.Second, func(ctx context.Context) error {
			return fmt.Errorf("%w: %w", volume.ErrTransient, ctx.Err())
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, own)
				n.claim("a")
				plugins, err := volume.NewVolumePluginMgr(n.host, slowPlugin{n.plugin, test.ended})
				require.NoError(t, err)
				n.config.Plugins = plugins
				m, stop := n.run()
				defer stop()
				pod := podWith("1", "a")
				n.source.SetPod(pod)
				time.Sleep(test.after)
				require.Equal(t, 1, n.mounts())
				n.source.RemovePod("1")
				n.down(m, pod)
				require.Equal(t, test.left, n.mounts())
			})
		})
	}
}
