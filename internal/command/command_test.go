package command_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/command"
)

func TestOutput(t *testing.T) {
	out, err := command.Output(exec.Command("sh", "-c", "echo result; echo message >&2"))
	require.NoError(t, err)
	require.Equal(t, "result\n", out)

	_, err = command.Output(exec.Command("sh", "-c", "echo first >&2; echo second >&2; exit 3"))
	require.EqualError(t, err, "sh: exit status 3: first second")

	_, err = command.Output(exec.Command("/nonexistent/program"))
	require.ErrorContains(t, err, "program: ")
}
