package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// A blockingPlugin mounts, and then waits until its context ends.
type blockingPlugin struct {
	*volumetest.FakePlugin
	endError func(ctx context.Context) error // returns the error of SetUp after ctx has ended
}

func (p blockingPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return blockingMounter{m, p}, err
}

type blockingMounter struct {
	volume.Mounter
	blockingPlugin
}

func (m blockingMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	if err := m.Mounter.SetUp(ctx, args); err != nil {
		return err
	}
	<-ctx.Done()
	return m.endError(ctx)
}

// TestCancelledSetUpIsTornDown: a set-up that is cancelled, because its pod is deleted or its deadline has
// passed, is uncertain, and is torn down, unless its error is transient.
func TestCancelledSetUpIsTornDown(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration // until the pod is deleted
		ended func(ctx context.Context) error
		left  int
	}{
		"the pod goes":  {time.Second, context.Context.Err, 0},
		"its deadline":  {600*time.Second + 200*time.Millisecond, context.Context.Err, 0},
		"another error": {time.Second, func(context.Context) error { return fmt.Errorf("signal: killed") }, 0},
		// The error is wrong: the mount that is left shows that the manager relies on it.
		"nothing was done": {time.Second, func(ctx context.Context) error {
			return fmt.Errorf("%w: %w", volume.ErrTransient, ctx.Err())
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.claim("a")
				plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, blockingPlugin{n.plugin, test.ended})
				require.NoError(t, err)
				n.config.Plugins = plugins
				m, stop := n.run()
				defer stop()
				pod := podWith("1", "a")
				n.source.SetPod(pod)
				time.Sleep(test.after)
				require.Equal(t, 1, n.mountCount())
				n.source.RemovePod("1")
				n.down(m, pod)
				require.Equal(t, test.left, n.mountCount())
			})
		})
	}
}

// TestDeletedPodCancelsSetUp: the deletion of a pod cancels its set-up. Its tear-down and the next pod of
// the volume do not wait for a slow set-up to end.
func TestDeletedPodCancelsSetUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: 24 * time.Hour, Times: 1})
		m, stop := n.run()
		first, next := podWith("1", "a"), podWith("2", "a")
		n.source.SetPod(first)
		time.Sleep(time.Second)
		n.source.RemovePod("1")
		n.source.SetPod(next)
		begin := time.Now()
		n.up(m, next)
		n.down(m, first)
		require.Less(t, time.Since(begin), time.Second)
		stop()
	})
}

// A revertingPlugin has set-ups of volume "a" that create the directory of the volume, and remove it some
// time after their context has ended.
type revertingPlugin struct{ *volumetest.FakePlugin }

func (p revertingPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	if spec.Name() != "a" {
		return m, err
	}
	return revertingMounter{m}, err
}

type revertingMounter struct{ volume.Mounter }

func (m revertingMounter) SetUp(ctx context.Context, _ volume.MounterArgs) error {
	if err := os.MkdirAll(m.GetPath(), 0o755); err != nil {
		return err
	}
	<-ctx.Done()
	time.Sleep(time.Second)
	return volume.AsTransient(errors.Join(os.Remove(m.GetPath()), ctx.Err()))
}

// TestCancelledSetUpLeavesNoDirectory: a set-up that is cancelled, and ends after the tear-downs of the
// other volumes of its pod, leaves no directory of the pod.
func TestCancelledSetUpLeavesNoDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.claim("b")
		plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, revertingPlugin{n.plugin})
		require.NoError(t, err)
		n.config.Plugins = plugins
		_, stop := n.run()
		defer stop()
		n.source.SetPod(podWith("1", "a", "b"))
		time.Sleep(time.Second)
		require.Equal(t, 1, n.mountCount())
		n.source.RemovePod("1")
		time.Sleep(time.Second / 2)
		require.Zero(t, n.mountCount(), "the tear-down of b has ended before the set-up of a")
		time.Sleep(time.Minute)
		require.NoDirExists(t, n.dir+"/root/pods/1")
	})
}
