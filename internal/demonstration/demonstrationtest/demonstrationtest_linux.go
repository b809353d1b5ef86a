package demonstrationtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/demonstration"
	"github.com/volumekit/volumekit/internal/namespace"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// A Program is a program under test. The TestMain of its package is testbed.Main.
type Program struct {
	demonstration.Program
	// RequirePrinted fails the test unless the output is that of the program.
	RequirePrinted func(t *testing.T, out string)
	// HelpSays is a part of the help.
	HelpSays string
}

// command returns the program in a process of its own. Its temporary directory is empty at its end, see
// checkEmpty.
func command(t *testing.T) (cmd *exec.Cmd, stderr *bytes.Buffer, checkEmpty func()) {
	dir, err := os.MkdirTemp("", "n") // short enough for sockets
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	cmd, stderr = exec.CommandContext(t.Context(), "/proc/self/exe"), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), testbed.ProgramVariable+"=1", "TMPDIR="+dir, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = stderr
	return cmd, stderr, func() {
		t.Helper()
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// TestOnRealKernel runs the program as a user does.
func (p Program) TestOnRealKernel(t *testing.T) {
	cmd, stderr, checkEmpty := command(t)
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	if strings.Contains(string(out), namespace.None) {
		mounttest.SkipWithout(t, "userns", string(out))
	}
	p.RequirePrinted(t, string(out))
	checkEmpty()
}

// TestWithoutNamespace: the program says that it uses a kernel in memory, and returns another fault.
func (p Program) TestWithoutNamespace(t *testing.T) {
	var buffer bytes.Buffer
	ctx, out := cli.NewOutput(t.Context(), &buffer)
	defer out.Close()
	require.NoError(t, p.Work(ctx, out, namespace.ErrNone))
	first, rest, _ := strings.Cut(buffer.String(), "\n")
	require.Equal(t, "Nothing is mounted, this is an in-memory kernel: "+namespace.None+".", first)
	p.RequirePrinted(t, rest)
	fails := errors.New("fails")
	require.ErrorIs(t, p.Work(ctx, out, fails), fails)
}

// TestOutputFails: a full disk and a closed pipe end the program, which leaves nothing behind.
func (p Program) TestOutputFails(t *testing.T) {
	testbed.EachFailingOutput(t, func(out *os.File, says string) {
		cmd, stderr, checkEmpty := command(t)
		cmd.Stdout = out
		require.Error(t, cmd.Run())
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), stderr.String())
		require.Contains(t, stderr.String(), says)
		checkEmpty()
	})
}

// TestFlags: the program has help, and no other flags.
func (p Program) TestFlags(t *testing.T) {
	testbed.RequireCommandLines(t, p.Run,
		testbed.CommandLine{Args: "-help", Prints: p.HelpSays}, testbed.CommandLine{Args: "-x", Status: 2, Prints: "see -help"})
}
