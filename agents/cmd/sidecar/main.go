package main

import (
	"context"
	"io"
	"os"

	"github.com/volumekit/volumekit/agents/internal/cli"
)

func main() { os.Exit(cli.Start(cli.PrintSteps("sidecar", run))) }

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, os.Getenv, stdout)
	if err != nil {
		return cli.UsageStatus("sidecar", err, stderr)
	}
	return cli.ExitStatus("sidecar", work(ctx, o, stderr), stderr)
}
