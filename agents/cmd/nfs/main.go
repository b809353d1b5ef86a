package main

import (
	"os"

	"github.com/volumekit/volumekit/agents/internal/cli"
)

func main() { os.Exit(start()) }

func start() int {
	if status, ok := inGuest(os.Args[1:]); ok {
		return status
	}
	ctx, stop := cli.Context()
	defer stop()
	ctx = cli.WithSteps(ctx, "nfs", os.Stderr)
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr, machine())
}
