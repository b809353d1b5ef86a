package manager_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// requireWaitForUnmountFails requires that short waits for the unmount fail, with the text in their errors.
func (n *node) requireWaitForUnmountFails(m *manager.Manager, pod *v1.Pod, errText string) {
	n.Helper()
	for _, wait := range []func(context.Context) error{
		func(ctx context.Context) error { return m.WaitForUnmount(ctx, pod) },
		m.WaitForAllPodsUnmount,
	} {
		ctx, cancel := context.WithTimeout(n.Context(), 100*time.Millisecond)
		require.ErrorContains(n, wait(ctx), errText)
		cancel()
	}
}

// A slowMountPlugin mounts, and returns a minute later, also if its context has ended by then.
type slowMountPlugin struct{ *volumetest.FakePlugin }

func (s slowMountPlugin) Unwrap() volume.VolumePlugin { return nil }

func (s slowMountPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := s.FakePlugin.NewMounter(spec, pod)
	return slowMounter{m}, err
}

type slowMounter struct{ volume.Mounter }

func (m slowMounter) SetUp(ctx context.Context, a volume.MounterArgs) error {
	err := m.Mounter.SetUp(ctx, a)
	time.Sleep(time.Minute)
	return err
}

// TestInFlightVolumeIsNotGone: a volume with an in-flight operation may exist, and no wait reports it
// as gone.
func TestInFlightVolumeIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, slowMountPlugin{n.plugin})
		require.NoError(t, err)
		n.config.Plugins = plugins
		n.claim("a")
		m, stop := n.run()
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		time.Sleep(time.Second)
		n.source.RemovePod("1")
		synctest.Wait()
		n.requireWaitForUnmountFails(m, pod, "in flight")
		require.Len(t, m.State().Volumes, 1)
		n.down(m, pod)
		require.Zero(t, n.mountCount())
		stop()
	})
}

type slowPodSource struct{ podsAndClaims }

func (s slowPodSource) Pods(ctx context.Context) ([]*v1.Pod, error) {
	time.Sleep(time.Minute)
	return s.podsAndClaims.Pods(ctx)
}

// TestUnreadPodIsNotGone: no volume is reported as gone before the first read of the source, or
// for a pod that the source has.
func TestUnreadPodIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		n.read(slowPodSource{n.source})
		m, stop := n.run()
		synctest.Wait()
		n.requireWaitForUnmountFails(m, pod, "has not returned its pods yet")
		time.Sleep(2 * time.Minute)
		n.requireWaitForUnmountFails(m, pod, "still has the pod") // whose claim is missing
		n.claim("a")
		n.up(m, pod)
		stop()
		time.Sleep(time.Hour) // Run has left the source, which ends later
	})
}
