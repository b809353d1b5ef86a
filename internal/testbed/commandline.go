package testbed

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A CommandLine is a call of a program.
type CommandLine struct {
	Args   string // separated by spaces
	Status int
	Prints string // a part of the standard output, or of the standard error unless Status is 0
}

// RequireCommandLines runs a program with each of the command lines.
func RequireCommandLines(t testing.TB, run func(ctx context.Context, args []string, stdout, stderr io.Writer) (status int), lines ...CommandLine) {
	t.Helper()
	for _, line := range lines {
		var out, failures bytes.Buffer
		require.Equal(t, line.Status, run(t.Context(), strings.Fields(line.Args), &out, &failures), line.Args)
		if line.Status == 0 {
			require.Contains(t, out.String(), line.Prints, line.Args)
		} else {
			require.Contains(t, failures.String(), line.Prints, line.Args)
		}
	}
}
