package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/namespace"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(run) }) }

const printed = `mounted at /pods/8d3c/volumes/kubernetes.io~local-volume/data
cache is at /pods/8d3c/volumes/kubernetes.io~empty-dir/cache
`

func TestOnFakeKernel(t *testing.T) {
	var out bytes.Buffer
	fake := mounttest.NewFake(mount.Config{})
	require.NoError(t, runInTempDir(t.Context(), &out, fake))
	require.Equal(t, printed, out.String())
}

func TestOnRealKernel(t *testing.T) {
	dir := t.TempDir()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), testbed.ProgramVariable+"=1", "TMPDIR="+dir, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if strings.Contains(stderr.String(), namespace.None) {
		mounttest.SkipWithout(t, "userns", stderr.String())
	}
	require.NoError(t, err, stderr.String())
	require.Equal(t, printed, string(out))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
