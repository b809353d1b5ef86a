package manager

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/persistent"
	"github.com/volumekit/volumekit/manager/internal/mountstate"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/retry"
)

// TestRetryNowSkipsLaterAttempts: a mount check makes a failed operation due at once only if no other
// attempt has ended since the check began.
func TestRetryNowSkipsLaterAttempts(t *testing.T) {
	op := operation.Operation{Verb: operation.SetUp, Volume: vol, Pod: podA}
	seen := retry.FailedAttempt{Backoff: retry.Backoff{Length: time.Second, Until: time.Unix(1000, 0)}, Where: mountstate.State{Path: "/a", Mounted: true, Mount: 7}}
	later := retry.FailedAttempt{Backoff: seen.Increase(time.Second, time.Hour, time.Unix(1000, 0)), Where: seen.Where}
	for name, test := range map[string]struct {
		is, then map[operation.Operation]retry.FailedAttempt
	}{
		"waits":        {map[operation.Operation]retry.FailedAttempt{op: seen}, map[operation.Operation]retry.FailedAttempt{op: {Backoff: retry.Backoff{Length: time.Second}, Where: seen.Where}}},
		"failed again": {map[operation.Operation]retry.FailedAttempt{op: later}, map[operation.Operation]retry.FailedAttempt{op: later}},
		"succeeded":    {map[operation.Operation]retry.FailedAttempt{}, map[operation.Operation]retry.FailedAttempt{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.schedule.Retry = persistent.Of(test.is)
			w.retryNow([]retry.FailedOperation{{Operation: op, FailedAttempt: seen}})
			require.Equal(t, test.then, maps.Collect(w.schedule.Retry.All()))
			require.Equal(t, name == "waits", w.dirty[vol])
		})
	}
}
