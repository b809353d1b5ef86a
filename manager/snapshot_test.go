package manager

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestLookupsTakeNoLock: lookups and waits return while the loop holds the lock.
func TestLookupsTakeNoLock(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host)
	require.NoError(t, err)
	m, err := New(Config{Plugins: plugins, Mounter: mounttest.NewFake(mount.Config{}), Pods: &MemorySource{}})
	require.NoError(t, err)
	m.mu.Lock()
	defer m.mu.Unlock()
	pod := &v1.Pod{}
	pod.UID = "1"
	require.Empty(t, m.GetMountedVolumesForPod("1"))
	require.Empty(t, m.GetVolumesInUse())
	require.False(t, m.VolumeIsAttached("a"))
	require.Empty(t, m.State().Volumes)
	require.ErrorIs(t, m.WaitForUnmount(simEndedContext, pod), ErrNotRunning)
	require.ErrorIs(t, m.WaitForAllPodsUnmount(simEndedContext), ErrNotRunning)
	require.Empty(t, m.published().existingVolumes("1"))
}

// TestSnapshotIsImmutable: later changes do not affect a published snapshot.
func TestSnapshotIsImmutable(t *testing.T) {
	m := &Manager{world: newWorld()}
	change := func(do func()) *snapshot {
		m.mu.Lock()
		do()
		m.unlock()
		return m.published()
	}
	op := operation.Operation{Verb: operation.SetUp, Volume: vol, Pod: podA}
	before := change(func() {
		m.have.Put(vol, actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Present}))
		m.schedule.Add(&operation.Flight{Operation: op})
		m.failures = m.failures.With(failureKey{vol, podA}, planning.ErrOnePod)
	})
	change(func() {
		m.have.Put(vol, actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podB: actual.Present}))
		m.schedule.Drop(m.schedule.Find(op))
		m.failures = m.failures.Without(failureKey{vol, podA})
	})
	require.Equal(t, actual.Present, before.have.Volumes.Get(vol).StateOf(podA))
	require.Len(t, before.have.Dirs.Of(podA.Pod), 1)
	require.Empty(t, before.have.Dirs.Of(podB.Pod))
	require.True(t, before.schedule.IsBusy(vol))
	require.ErrorIs(t, before.failures.Get(failureKey{vol, podA}), planning.ErrOnePod)
	require.False(t, m.published().schedule.IsBusy(vol))
}

// TestPublishCostIsConstant: the cost of changing and publishing a volume does not depend on the
// number of volumes.
func TestPublishCostIsConstant(t *testing.T) {
	cost := func(volumes int) float64 {
		m := &Manager{world: newWorld()}
		named := func(i int) (v1.UniqueVolumeName, *actual.Volume) {
			key := naming.PodKey{Pod: types.UID(fmt.Sprint(i)), Name: "a"}
			return v1.UniqueVolumeName(fmt.Sprint("plugin/", i)), &actual.Volume{Plugin: "plugin", Name: fmt.Sprint(i), Pods: naming.PodMap[*actual.Pod]{{Key: key, Value: &actual.Pod{State: actual.Present}}}}
		}
		for i := range volumes {
			m.have.Put(named(i))
		}
		m.have.StalePods = naming.UIDSet{} // as before a population
		return testing.AllocsPerRun(100, func() {
			m.mu.Lock()
			m.have.Put("plugin/7", &actual.Volume{Plugin: "plugin", Name: "7"})
			m.have.Put(named(7))
			m.unlock()
		})
	}
	require.LessOrEqual(t, cost(10_000), cost(100)+40, "allocations")
}
