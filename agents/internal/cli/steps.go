package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/volumekit/volumekit/util/progress"
)

// A Run is the main function of a program: it returns the exit status.
type Run = func(ctx context.Context, args []string, stdout, stderr io.Writer) (status int)

// PrintSteps returns run with the steps that take longer than a second printed to stderr, see [WithSteps].
func PrintSteps(program string, run Run) Run {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return run(WithSteps(ctx, program, stderr), args, stdout, stderr)
	}
}

// WithSteps returns a context whose steps are printed in lines: after a second, after ten, each minute,
// and at their end. Stderr must be safe for concurrent use, as a file is.
func WithSteps(ctx context.Context, program string, stderr io.Writer) context.Context {
	return progress.With(ctx, progress.Sparse(func(r progress.Report) {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", program, OneLine(r.String()))
	}))
}
