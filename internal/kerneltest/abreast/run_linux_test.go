package abreast

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func shell(title, script string) Task { return Task{title, []string{"sh", "-c", script}} }

// wait and done let a script wait for another.
const (
	wait = `while [ ! -e done ]; do sleep 0.01; done; `
	done = `touch done; `
)

// TestInTurn checks that the second command's output follows the first one's completely,
// although it was printed earlier.
func TestInTurn(t *testing.T) {
	t.Chdir(t.TempDir())
	var out strings.Builder
	require.NoError(t, Run(t.Context(), &out,
		shell("A", wait+"echo a; echo err >&2"), shell("B", "echo b; "+done), shell("C", "printf c")))
	require.Equal(t, "a\nerr\nb\nc", out.String())
}

// TestFirstFailure checks that the first failure ends the other commands with their
// children, and is the error that Run returns.
func TestFirstFailure(t *testing.T) {
	defer func(before time.Duration) { endLimit = before }(endLimit)
	endLimit = time.Second
	t.Chdir(t.TempDir())
	var out strings.Builder
	err := Run(t.Context(), &out,
		shell("A", `echo a; sh -c 'trap "" TERM; echo $$ >pid; mv pid child; exec sleep 1000' & wait`),
		shell("B", `while [ ! -e child ]; do sleep 0.01; done; echo b; exit 3`))
	require.ErrorContains(t, err, "B: exit status 3")
	exit := (*exec.ExitError)(nil)
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.ExitCode())
	require.Equal(t, "a\nb\n", out.String())
	child, err := os.ReadFile("child")
	require.NoError(t, err)
	require.NoDirExists(t, "/proc/"+strings.TrimSpace(string(child)))
}

// TestOrphans checks that the remaining children of a successful command are killed.
func TestOrphans(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, Run(t.Context(), new(strings.Builder), shell("A", `sleep 1000 >/dev/null 2>&1 & echo $! >child`)))
	child, err := os.ReadFile("child")
	require.NoError(t, err)
	require.NoDirExists(t, "/proc/"+strings.TrimSpace(string(child)))
}

// TestInterrupt: the end of the context ends all commands.
func TestInterrupt(t *testing.T) {
	t.Chdir(t.TempDir())
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error, 1)
	go func() {
		result <- Run(ctx, new(strings.Builder), shell("A", "sleep 1000"), shell("B", done+"sleep 1000"))
	}()
	require.Eventually(t, func() bool { return unix.Access("done", unix.F_OK) == nil }, time.Minute, 10*time.Millisecond)
	cancel(why)
	select {
	case err := <-result:
		require.ErrorIs(t, err, why)
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

func TestNoSuchCommand(t *testing.T) {
	require.ErrorIs(t, Run(t.Context(), new(strings.Builder), Task{"A", []string{"no-such-command"}}), exec.ErrNotFound)
	require.NoError(t, Run(t.Context(), new(strings.Builder)))
}
