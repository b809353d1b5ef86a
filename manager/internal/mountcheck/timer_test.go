package mountcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
)

var now = time.Unix(1000, 0)

// TestPauseBetweenChecks: the pause after a check is four times as long as the check, from a quarter
// of a second to a second. After the clock has gone back the next check is due at once.
func TestPauseBetweenChecks(t *testing.T) {
	for _, test := range []struct{ took, pause time.Duration }{
		{0, 250 * time.Millisecond},
		{100 * time.Millisecond, 400 * time.Millisecond},
		{time.Minute, time.Second},
	} {
		var timer Timer
		require.Equal(t, now, timer.NextCheck(true, now), "no check yet")
		timer.Begin()
		require.True(t, timer.IsRunning())
		timer.End(Check{Took: test.took}, now)
		require.False(t, timer.IsRunning())
		require.Zero(t, timer.NextCheck(false, now), "no mount is queued")
		require.Equal(t, now.Add(test.pause), timer.NextCheck(true, now))
		after := now.Add(test.pause)
		require.Equal(t, after, timer.NextCheck(true, after))
		before := now.Add(-time.Hour)
		require.Equal(t, before, timer.NextCheck(true, before))
	}
}

// TestUncheckedMountPauses: a mount whose check failed is due again after growing pauses, up to a
// minute, until a check succeeds. After the clock has gone back the mount is due at once.
func TestUncheckedMountPauses(t *testing.T) {
	broken, sound := actual.ExpectedMount{Path: "/broken"}, actual.ExpectedMount{Path: "/sound"}
	all := []actual.ExpectedMount{broken, sound}
	var timer Timer
	at := now
	for _, want := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second} {
		timer.End(Check{Checked: all, Unchecked: all[:1]}, at)
		require.True(t, timer.IsUnchecked("/broken"))
		require.False(t, timer.IsUnchecked("/sound"))
		require.Equal(t, at.Add(want), timer.NextCheck(false, at))
		at = timer.NextCheck(false, at)
	}
	for range 10 {
		timer.End(Check{Checked: all, Unchecked: all[:1]}, at)
	}
	require.Equal(t, at.Add(time.Minute), timer.NextCheck(false, at))
	before := at.Add(-time.Hour)
	require.Equal(t, before, timer.NextCheck(false, before))
	timer.End(Check{Checked: all}, at)
	require.Zero(t, timer.NextCheck(false, at))
}
