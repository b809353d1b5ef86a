package simtest

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// economize saves a third of the processor time until t ends: bubbles are short-lived garbage, and
// informers log each fault to os.Stderr by klog.
func economize(t *testing.T) {
	percent, stderr := debug.SetGCPercent(800), os.Stderr
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	os.Stderr = null
	t.Cleanup(func() {
		os.Stderr = stderr
		debug.SetGCPercent(percent)
		require.NoError(t, null.Close())
	})
}
