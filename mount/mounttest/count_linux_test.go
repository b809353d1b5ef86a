package mounttest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestCountedProgramKeepsLimits: the Go runtime of a counted program does not read the limits of its cgroup again, as it
// would once a second. Other settings stay.
func TestCountedProgramKeepsLimits(t *testing.T) {
	for before, want := range map[string]string{"": ",updatemaxprocs=0", "madvdontneed=1": "madvdontneed=1,updatemaxprocs=0"} {
		var output strings.Builder
		c := exec.Command("/bin/sh", "-c", "echo $GODEBUG")
		c.Env, c.Stdout = append(os.Environ(), "GODEBUG="+before), &output
		require.NotEmpty(t, mounttest.CountCalls(t, c))
		require.Equal(t, want+"\n", output.String())
	}
}
