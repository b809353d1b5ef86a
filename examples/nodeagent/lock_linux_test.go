package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStatusOfEndingAgent: one that is being killed has no mount table any more while it
// still has its lock. That is no error, but soon no agent.
func TestStatusOfEndingAgent(t *testing.T) {
	ending := exec.Command("/proc/self/exe", "-test.list", "^$")
	require.NoError(t, ending.Start())
	defer func() { _ = ending.Wait() }()
	require.Eventually(t, func() bool {
		_, err := mountsOf(ending.Process.Pid)
		return err != nil
	}, time.Minute, 10*time.Millisecond)

	root := t.TempDir()
	f, err := os.Create(filepath.Join(root, lockName))
	require.NoError(t, err)
	_, err = fmt.Fprintln(f, ending.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, flock(f))
	defer time.AfterFunc(4*pause, func() { _ = f.Close() }).Stop()
	pid, mounts, err := mountsOfHolder(root)
	require.NoError(t, err)
	require.Zero(t, pid)
	require.NotEmpty(t, mounts)
}
