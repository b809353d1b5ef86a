package provision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKindsOfFailures: failures of different kinds do not add up to a threshold, nor to a pause.
func TestKindsOfFailures(t *testing.T) {
	now := time.Now()
	failed := pauseRule{first: time.Second, most: time.Hour, threshold: 2}
	inUse := pauseRule{first: time.Second, most: time.Hour, kind: wasInUse}
	ignored := pauseRule{first: ignoredFor, most: ignoredFor, threshold: 2, kind: wasIgnored}
	var r retry
	for range 5 {
		r.fail(now, "v", "in use", inUse)
	}
	r.fail(now, "v", "another server", ignored)
	require.False(t, r.gaveUp, "another provisioner has its time")
	require.Equal(t, now.Add(ignoredFor), r.until)
	r.fail(now, "v", "busy", failed)
	require.False(t, r.gaveUp)
	require.Equal(t, now.Add(time.Second), r.until)
	r.fail(now, "v", "in use", inUse)
	r.fail(now, "v", "busy", failed)
	require.False(t, r.gaveUp)
	r.fail(now, "v", "busy", failed)
	require.True(t, r.gaveUp)
}
