package mountcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/mountstate"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/retry"
	v1 "k8s.io/api/core/v1"
)

// newWorld returns the volumes "a" and "b", each with a device mount and a mount in pod 1.
func newWorld() World {
	var w World
	for _, name := range []v1.UniqueVolumeName{"a", "b"} {
		v := &actual.Volume{Device: actual.Present, DeviceMountPath: "/device/" + string(name)}
		v.Pods.Set(naming.PodKey{Pod: "1", Name: string(name)}, &actual.Pod{State: actual.Present, Mounted: true, Path: "/pods/1/" + string(name)})
		w.Have.Put(name, v)
	}
	return w
}

func pathsOf(all []actual.ExpectedMount) (paths []string) {
	for _, mnt := range all {
		paths = append(paths, mnt.Path)
	}
	return paths
}

// TestSelectionOfQueuedMounts: a check covers the queued places, volumes or all mounts, and the queue
// is empty afterwards. A place without a mount is left out.
func TestSelectionOfQueuedMounts(t *testing.T) {
	every := []string{"/device/a", "/device/b", "/pods/1/a", "/pods/1/b"}
	for name, test := range map[string]struct {
		add  func(q *Queue, w World)
		want []string
	}{
		"all":     {func(q *Queue, _ World) { q.AddAll() }, every},
		"a place": {func(q *Queue, _ World) { q.AddPlace(naming.Place{Volume: "b"}) }, every[1:2]},
		"a volume": {func(q *Queue, w World) { q.AddVolume("a", w.Have.Volumes.Get("a")) },
			[]string{"/device/a", "/pods/1/a"}},
		"an unknown volume": {func(q *Queue, _ World) { q.AddVolume("c", nil) }, nil},
		"failed operations": {func(q *Queue, _ World) { q.AddFailed() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var timer Timer
			var q Queue
			require.True(t, q.IsEmpty())
			w := newWorld()
			test.add(&q, w)
			require.False(t, q.IsEmpty())
			all, _ := timer.Select(w, &q, now)
			require.Equal(t, test.want, pathsOf(all))
			require.True(t, q.IsEmpty())
		})
	}
}

// TestBusyVolumeIsCheckedAfterOperation: the mounts of a volume with an in-flight operation are
// checked after the operation.
func TestBusyVolumeIsCheckedAfterOperation(t *testing.T) {
	for name, add := range map[string]func(*Queue){
		"all":     (*Queue).AddAll,
		"a place": func(q *Queue) { q.AddPlace(naming.Place{Volume: "a"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			f := &operation.Flight{Operation: operation.Operation{Verb: operation.MountDevice, Volume: "a"}}
			w.Flights.Add(f)
			var timer Timer
			var q Queue
			add(&q)
			all, _ := timer.Select(w, &q, now)
			require.NotContains(t, pathsOf(all), "/device/a")
			require.True(t, f.CheckAfter)
		})
	}
}

// TestSelectionOfUncheckedMounts: a mount whose check failed is checked again after its pause,
// without its neighbors, and not earlier even if all mounts are queued. The pause ends with the
// volume.
func TestSelectionOfUncheckedMounts(t *testing.T) {
	w := newWorld()
	broken, ok := w.Have.Volumes.Get("a").ExpectedMount(naming.Place{Volume: "a"})
	require.True(t, ok)
	var timer Timer
	timer.End(Check{Checked: []actual.ExpectedMount{broken}, Unchecked: []actual.ExpectedMount{broken}}, now)
	var q Queue
	q.AddAll()
	all, _ := timer.Select(w, &q, now)
	require.Equal(t, []string{"/device/b", "/pods/1/a", "/pods/1/b"}, pathsOf(all))
	all, _ = timer.Select(w, &q, now.Add(minPause))
	require.Equal(t, []string{"/device/a"}, pathsOf(all))

	w.Have.Put("a", &actual.Volume{})
	all, _ = timer.Select(w, &q, now.Add(minPause))
	require.Empty(t, all)
	require.False(t, timer.IsUnchecked("/device/a"))
}

// TestSelectionOfFailedOperations: a check covers the failed operations that wait, have a known
// mount point, and whose volume has no in-flight operation, if they or all mounts are queued.
func TestSelectionOfFailedOperations(t *testing.T) {
	w := newWorld()
	w.Flights.Add(&operation.Flight{Operation: operation.Operation{Verb: operation.MountDevice, Volume: "b"}})
	waits := retry.FailedAttempt{Backoff: retry.Backoff{Until: now.Add(time.Second)}, Where: mountstate.State{Path: "/pods/1/a"}}
	due, unknown := waits, waits
	due.Until, unknown.Where = now, mountstate.State{}
	setUp := operation.Operation{Verb: operation.SetUp, Volume: "a", Pod: naming.PodKey{Pod: "1", Name: "a"}}
	w.Retry = persistent.Of(map[operation.Operation]retry.FailedAttempt{
		setUp:                                   waits,
		{Verb: operation.TearDown, Volume: "b"}: waits,
		{Verb: operation.MountDevice, Volume: "a"}: due,
		{Verb: operation.Expand, Volume: "a"}:      unknown,
	})
	want := []retry.FailedOperation{{Operation: setUp, FailedAttempt: waits}}
	for name, test := range map[string]struct {
		add  func(*Queue)
		want []retry.FailedOperation
	}{
		"all":               {(*Queue).AddAll, want},
		"failed operations": {(*Queue).AddFailed, want},
		"a place":           {func(q *Queue) { q.AddPlace(naming.Place{Volume: "a"}) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var timer Timer
			var q Queue
			test.add(&q)
			_, failed := timer.Select(w, &q, now)
			require.Equal(t, test.want, failed)
		})
	}
}
