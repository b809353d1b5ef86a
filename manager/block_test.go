package manager_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// TestBlockVolumeIsMapped: a block volume is mapped in its pod, and is torn down after a restart.
func TestBlockVolumeIsMapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", ofMode(v1.PersistentVolumeBlock))
		pod := withDevices(podWith("1", "a"))
		m, stop := n.runUp(pod)
		mounted := m.GetMountedVolumesForPod("1")["v0"]
		require.True(t, mounted.Block)
		target, err := os.Readlink(mounted.Path)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(n.dir, "disk-a"), target)
		require.Contains(t, n.reasons(), manager.SuccessfulMapVolume)
		stop()

		m, stop = n.run()
		n.up(m, pod)
		n.source.RemovePod("1")
		require.NoError(t, m.WaitForAllPodsUnmount(t.Context()))
		synctest.Wait()
		require.Equal(t, 1, n.plugin.Calls(volumetest.TearDownDevice))
		require.NoFileExists(t, mounted.Path)
		require.Empty(t, m.State().Volumes)
		stop()
	})
}

// TestStagedDeviceOfNoPodIsTornDown: a device that was staged for a pod, and never mapped for it, is
// torn down after the pod is gone.
func TestStagedDeviceOfNoPodIsTornDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", ofMode(v1.PersistentVolumeBlock))
		pod := withDevices(podWith("1", "a"))
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUpDevice, After: true, Delay: time.Hour, Times: 1})
		_, stop := n.run()
		n.source.SetPod(pod)
		time.Sleep(time.Second)
		stop()
		n.source.RemovePod("1")
		m, stop := n.run()
		time.Sleep(time.Minute)
		require.Equal(t, 1, n.plugin.Calls(volumetest.TearDownDevice))
		require.Empty(t, m.State().Volumes)
		stop()
	})
}
