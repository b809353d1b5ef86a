package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/namespace"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(program.Run) }) }

// The output has X for the names of the volume and the pod. Other goroutines print the events.
const (
	printedSteps = `claim data is bound to pvc-X
pod web has the volume at /node/pods/X/volumes/kubernetes.io~local-volume/pvc-X
/disks/pvc-X/greeting: hello
pod web is deleted, the volume is unmounted
claim data is deleted
pvc-X is deleted, directories left: 0
`
	printedEvents = `event Provisioning: example.com/directories provisions a volume for claim default/data
event ProvisioningSucceeded: provisioned volume pvc-X
`
)

var uid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func requirePrinted(t *testing.T, out string) {
	t.Helper()
	var steps, events string
	for line := range strings.Lines(uid.ReplaceAllString(out, "X")) {
		if strings.HasPrefix(line, "event ") {
			events += line
		} else {
			steps += line
		}
	}
	require.Equal(t, printedSteps, steps)
	require.Equal(t, printedEvents, events)
}

// command returns the program. Its temporary directory is empty at its end, see checkEmpty.
func command(t *testing.T) (cmd *exec.Cmd, stderr *bytes.Buffer, checkEmpty func()) {
	dir := t.TempDir()
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
	fails := errors.New("fails")
	require.ErrorIs(t, program.Work(ctx, out, fails), fails)
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
		testbed.CommandLine{Args: "-help", Prints: "claim"}, testbed.CommandLine{Args: "-x", Status: 2, Prints: "see -help"})
}
