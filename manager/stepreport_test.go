package manager_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// A steppingPlugin has a set-up with one long step.
type steppingPlugin struct {
	*volumetest.FakePlugin
	step progress.Step
	time time.Duration
}

func (p steppingPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return steppingMounter{m, p}, err
}

type steppingMounter struct {
	volume.Mounter
	steppingPlugin
}

func (m steppingMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	end := progress.Begin(ctx, m.step)
	time.Sleep(m.time)
	end()
	return m.Mounter.SetUp(ctx, args)
}

// TestOwnershipEvents: a change of ownership is reported in events of the pod after 30 seconds and then each
// minute; other steps are not.
func TestOwnershipEvents(t *testing.T) {
	for name, test := range map[string]struct {
		step string
		time time.Duration
		want []string
	}{
		"short":        {progress.Ownership, 30*time.Second - 1, nil},
		"long":         {progress.Ownership, 2 * time.Minute, []string{"30 files", "90 files"}},
		"another step": {progress.Format, 2 * time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.claim("a")
				seconds := int64(0)
				count := func() (done, total int64) { seconds++; return seconds, 0 }
				plugin := steppingPlugin{n.plugin, progress.Step{Name: test.step, Object: "/a", Unit: progress.Entries, Count: count}, test.time}
				plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, plugin)
				require.NoError(t, err)
				n.config.Plugins = plugins
				pod := podWith("1", "a")
				_, stop := n.runUp(pod)
				stop()
				synctest.Wait()
				var got []string
				for _, e := range n.events {
					if e.Reason != manager.VolumePermissionChangeInProgress {
						continue
					}
					require.Equal(t, v1.EventTypeNormal, e.Type)
					require.Equal(t, pod, e.Pod)
					require.Equal(t, "v0", e.Volume)
					got = append(got, e.Message)
				}
				require.Len(t, got, len(test.want))
				for i := range got {
					require.Equal(t, `setting the ownership of volume "a": `+test.want[i]+" so far", got[i])
				}
			})
		})
	}
}

// TestStepsReachTheCaller: a receiver in the context of Run gets the steps of plugins.
func TestStepsReachTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, steppingPlugin{n.plugin, progress.Step{Name: progress.Format, Object: "/dev/vdb"}, 90 * time.Second})
		require.NoError(t, err)
		n.config.Plugins = plugins
		m, err := manager.New(n.config)
		require.NoError(t, err)
		reports := make(chan string, 100)
		ctx, cancel := context.WithCancel(progress.With(t.Context(), progress.Sparse(func(r progress.Report) { reports <- r.String() })))
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		n.up(m, pod)
		cancel()
		require.NoError(t, <-ended)
		synctest.Wait()
		close(reports)
		var got []string
		for r := range reports {
			got = append(got, r)
		}
		require.Equal(t, []string{"format /dev/vdb: 1s", "format /dev/vdb: 10s", "format /dev/vdb: 1m0s", "format /dev/vdb: ended after 1m30s"}, got)
	})
}
