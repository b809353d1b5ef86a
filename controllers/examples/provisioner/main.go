package main

import (
	"os"

	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/demonstration"
)

var program = demonstration.Program{
	Name: "provisioner",
	Help: "provisioner turns a claim into a mounted directory, and removes the directory with the claim.",
	Show: demonstrate,
}

func main() { os.Exit(cli.Start(program.Run)) }
