package lanes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// TestRoomForHangingOperations bounds the threads that one plugin's hanging operations may
// hold: with many workers by maxThreads, with few by a multiple of them.
func TestRoomForHangingOperations(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, test := range []struct{ workers, hanging, want int }{
		{workers: 2, hanging: 0, want: 2},
		{workers: 2, hanging: 15, want: 1},
		{workers: 2, hanging: 16, want: 0},
		{workers: 512, hanging: 600, want: 424},
		{workers: 512, hanging: 1024, want: 0},
		{workers: 2000, hanging: 1999, want: 1},
		{workers: 2000, hanging: 2000, want: 0},
	} {
		all := New(Limits{Workers: test.workers})
		in := all.laneFor(operation.LaneKey{})
		for range test.hanging {
			in.flights = append(in.flights, &operation.Flight{Since: now.Add(-2 * slowAfter)})
		}
		require.Equal(t, test.want, all.FreeWorkers(operation.LaneKey{}, now), "%+v", test)
	}
}
