package retry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBackoffDoubles: the pause doubles from its first length to its largest, and ends that long after
// the failure.
func TestBackoffDoubles(t *testing.T) {
	now := time.Unix(1000, 0)
	var backoff Backoff
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		backoff = backoff.Increase(1, 10, now)
		require.Equal(t, Backoff{Length: want, Until: now.Add(want)}, backoff)
	}
	require.Equal(t, time.Duration(3), Backoff{}.Increase(5, 3, now).Length, "the first length is above the largest")
}

// TestEarlierIgnoresZeroTime: the zero time is later than any other.
func TestEarlierIgnoresZeroTime(t *testing.T) {
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	for _, test := range []struct{ a, b, want time.Time }{
		{first, second, first},
		{second, first, first},
		{time.Time{}, second, second},
		{first, time.Time{}, first},
		{time.Time{}, time.Time{}, time.Time{}},
	} {
		require.Equal(t, test.want, Earlier(test.a, test.b))
	}
}
