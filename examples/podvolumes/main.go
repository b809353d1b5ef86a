package main

import (
	"os"

	"github.com/volumekit/volumekit/examples/internal/cli"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := cli.Context()
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr, machine())
}
