package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/rootlock"
)

// TestStatusOfEndingAgent checks the status of an agent that is being killed: it has its
// lock but no mount table any more. The status is no error, and soon reports no agent.
func TestStatusOfEndingAgent(t *testing.T) {
	ending := exec.Command("/proc/self/exe", "-test.list", "^$")
	require.NoError(t, ending.Start())
	defer func() { _ = ending.Wait() }()
	require.Eventually(t, func() bool {
		_, err := mountsOf(ending.Process.Pid)
		return err != nil
	}, time.Minute, 10*time.Millisecond)

	root := t.TempDir()
	f, err := os.Create(filepath.Join(root, rootlock.Name))
	require.NoError(t, err)
	_, err = fmt.Fprintln(f, ending.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	defer time.AfterFunc(200*time.Millisecond, func() { _ = f.Close() }).Stop()
	pid, mounts, err := mountsOfHolder(root)
	require.NoError(t, err)
	require.Zero(t, pid)
	require.NotEmpty(t, mounts)
}
