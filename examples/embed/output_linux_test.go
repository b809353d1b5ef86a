package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/namespace"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestOutputFails: a full disk and a closed pipe on standard output are errors that end the
// program, which leaves nothing behind.
func TestOutputFails(t *testing.T) {
	testbed.EachFailingOutput(t, func(out *os.File, says string) {
		dir := t.TempDir()
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), testbed.ProgramVariable+"=1", "TMPDIR="+dir, "GORACE=atexit_sleep_ms=0")
		cmd.Stdout, cmd.Stderr = out, &stderr
		err := cmd.Run()
		if strings.Contains(stderr.String(), namespace.None) {
			mounttest.SkipWithout(t, "userns", stderr.String())
		}
		require.Error(t, err)
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), stderr.String())
		require.Contains(t, stderr.String(), says)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}
