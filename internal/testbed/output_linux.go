package testbed

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// EachFailingOutput calls a test with an output on a full disk, and with one that nothing reads
// from. Says is the text of the error.
func EachFailingOutput(t testing.TB, test func(out *os.File, says string)) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	r, closed, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	test(full, "no space left on device")
	test(closed, "broken pipe")
	require.NoError(t, full.Close())
	require.NoError(t, closed.Close())
}
