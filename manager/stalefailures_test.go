package manager

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/retry"
	v1 "k8s.io/api/core/v1"
)

// TestFailuresOfRenamedVolumeAreDropped: failed operations of a volume that now has another unique name are
// dropped. Failed operations of the actual state stay.
func TestFailuresOfRenamedVolumeAreDropped(t *testing.T) {
	w := newWorld()
	w.have.Put(vol, actualVolume(diskTraits, actual.Present, actual.Present, map[naming.PodKey]actual.State{podA: actual.Uncertain}))
	stays := []operation.Operation{{Verb: operation.TearDown, Volume: vol, Pod: podA}, {Verb: operation.UnmountDevice, Volume: vol, Pod: naming.PodKey{}}, {Verb: operation.Detach, Volume: vol, Pod: naming.PodKey{}}}
	const other = v1.UniqueVolumeName("plugin/other")
	goes := []operation.Operation{{Verb: operation.TearDown, Volume: vol, Pod: podB}, {Verb: operation.TearDown, Volume: other, Pod: podA}, {Verb: operation.UnmountDevice, Volume: other, Pod: naming.PodKey{}}, {Verb: operation.Detach, Volume: other, Pod: naming.PodKey{}}, {Verb: operation.SetUp, Volume: vol, Pod: podB}}
	want := map[operation.Operation]retry.FailedAttempt{}
	for _, op := range stays {
		want[op] = retry.FailedAttempt{}
	}
	for _, op := range append(goes, stays...) {
		w.schedule.Retry = w.schedule.Retry.With(op, retry.FailedAttempt{})
	}
	w.dropStaleFailures(nil)
	require.Equal(t, want, maps.Collect(w.schedule.Retry.All()))
}
