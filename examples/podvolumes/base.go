package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/examples/internal/workdir"
	"github.com/volumekit/volumekit/internal/cli"
)

// A base is the directory of -root. Below it are the pods' directories, and the
// disks of the built-in manifest.
type base string

func (b base) pods() string  { return filepath.Join(string(b), "pods") }
func (b base) disks() string { return filepath.Join(string(b), "disks") }

// checkUnused refuses to mix this run's volumes with those of an earlier one.
func (b base) checkUnused() error {
	if _, err := os.Lstat(b.pods()); err == nil || workdir.IsMarked(b.disks()) {
		return fmt.Errorf("-root: %s contains volumes: take them down with -down -root %s",
			b, cli.Quoted(string(b)))
	}
	return nil
}

// builtinDisks are the directories of the built-in manifest's local volumes.
func (b base) builtinDisks() (paths []string) {
	for _, name := range []string{"a", "b", "logs"} {
		paths = append(paths, filepath.Join(b.disks(), name))
	}
	return paths
}

// createdDirs are the directories that the program makes.
func (b base) createdDirs() []workdir.Made {
	return []workdir.Made{{Dir: b.disks(), Subdirs: b.builtinDisks()}, {Dir: string(b)}}
}
