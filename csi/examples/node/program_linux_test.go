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
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(program.Run) }) }

const printed = `driver local.csi.example.com is registered
volume ID is created
pod web has the volume at /node/pods/pod-1/volumes/kubernetes.io~csi/pvc-1/mount
/claims/pvc-1/greeting: hello
pod web is deleted, the volume is unpublished
the volume is deleted, directories left: 0
`

// requirePrinted requires the output, with ID for the ID of the volume.
func requirePrinted(t *testing.T, out string) {
	t.Helper()
	_, rest, _ := strings.Cut(out, "\nvolume ")
	id, _, _ := strings.Cut(rest, " ")
	require.NotEmpty(t, id, out)
	require.Equal(t, printed, strings.ReplaceAll(out, "volume "+id+" is", "volume ID is"))
}

// command returns the program. Its temporary directory is empty at its end, see checkEmpty.
func command(t *testing.T) (cmd *exec.Cmd, stderr *bytes.Buffer, checkEmpty func()) {
	dir, err := os.MkdirTemp("", "n") // short enough for sockets
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	cmd, stderr = exec.CommandContext(t.Context(), "/proc/self/exe"), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), testbed.ProgramVariable+"=1", "TMPDIR="+dir, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = stderr
	return cmd, stderr, func() {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

func TestOnRealKernel(t *testing.T) {
	cmd, stderr, checkEmpty := command(t)
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	if strings.Contains(string(out), namespace.None) {
		mounttest.SkipWithout(t, "userns", string(out))
	}
	requirePrinted(t, string(out))
	checkEmpty()
}

// TestWithoutNamespace: the program says that it uses a kernel in memory.
func TestWithoutNamespace(t *testing.T) {
	var buffer bytes.Buffer
	ctx, out := cli.NewOutput(t.Context(), &buffer)
	defer out.Close()
	require.NoError(t, program.Work(ctx, out, namespace.ErrNone))
	first, rest, _ := strings.Cut(buffer.String(), "\n")
	require.Equal(t, "Nothing is mounted, this is an in-memory kernel: "+namespace.None+".", first)
	requirePrinted(t, rest)
}

// TestOutputFails: a full disk and a closed pipe end the program, which leaves nothing behind.
func TestOutputFails(t *testing.T) {
	testbed.EachFailingOutput(t, func(out *os.File, says string) {
		cmd, stderr, checkEmpty := command(t)
		cmd.Stdout = out
		require.Error(t, cmd.Run())
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), stderr.String())
		require.Contains(t, stderr.String(), says)
		checkEmpty()
	})
}

func TestFlags(t *testing.T) {
	testbed.RequireCommandLines(t, program.Run,
		testbed.CommandLine{Args: "-help", Prints: "driver"}, testbed.CommandLine{Args: "-x", Status: 2, Prints: "see -help"})
}
