package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// Start runs a program with the arguments and the outputs of the process, until a signal ends its
// context, and returns the exit status.
func Start(run Run) (status int) {
	ctx, stop := Context()
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// UsageStatus returns the exit status of a program that has not begun its work: 0 if err is
// flag.ErrHelp, otherwise 2, after it has printed the error of the command line.
func UsageStatus(program string, err error, stderr io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "%s: %s; see -help\n", program, OneLine(err.Error()))
	return 2
}

// ExitStatus returns the exit status of a program that has ended: 0 if err is nil, otherwise 1, after it
// has printed the error.
func ExitStatus(program string, err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "%s: %s\n", program, OneLine(err.Error()))
	return 1
}
