package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestHelpFails: a help text that cannot be written is an error.
func TestHelpFails(t *testing.T) {
	testbed.EachFailingOutput(t, func(out *os.File, says string) {
		var stderr bytes.Buffer
		require.NotZero(t, run(t.Context(), []string{"-help"}, out, &stderr))
		require.Contains(t, stderr.String(), says)
	})
}

// TestKubeOutputFails: output that cannot be written is an error that ends the program.
func TestKubeOutputFails(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	c := newCluster(t)
	args := []string{"-kubeconfig", c.account.Kubeconfig(), "-node", nodeName, "-root", filepath.Join(c.disks, "root"), "-register"}
	testbed.EachFailingOutput(t, func(out *os.File, says string) {
		var stderr bytes.Buffer
		require.Equal(t, 1, run(t.Context(), args, out, &stderr))
		require.Contains(t, stderr.String(), says)
	})
}
