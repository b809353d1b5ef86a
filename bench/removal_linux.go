package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/volumekit/volumekit/util/scrub"
)

// measureRemoval compares the processor time that it takes to remove a tree, and
// prints it. A tree takes long to make, so there are few rounds.
func measureRemoval(ctx context.Context, dir string) error {
	const rounds, directories, files = 3, 20, 1000
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	var ours, theirs []float64
	for range rounds {
		for _, side := range []struct {
			remove func(context.Context, string) error
			times  *[]float64
		}{{empty, &ours}, {removeAll, &theirs}} {
			if err := plant(tree, directories, files); err != nil {
				return err
			}
			begin := processorTime()
			if err := side.remove(ctx, tree); err != nil {
				return err
			}
			*side.times = append(*side.times, processorTime()-begin)
		}
	}
	fmt.Println()
	fmt.Println("| work | ours, ms of CPU | os.RemoveAll, ms of CPU | ours/os |")
	fmt.Println("|---|--:|--:|--:|")
	fmt.Printf("| remove %d files | %.0f | %.0f | %.2f |\n", directories*files, median(ours), median(theirs), median(ours)/median(theirs))
	return nil
}

func empty(ctx context.Context, tree string) error {
	root, err := scrub.Open(tree)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	_, err = root.Empty(ctx, scrub.Options{})
	return err
}

func removeAll(_ context.Context, tree string) error { return os.RemoveAll(tree) }

func plant(tree string, directories, files int) error {
	for d := range directories {
		dir := filepath.Join(tree, strconv.Itoa(d))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for f := range files {
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(f)), nil, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// processorTime is that of the process, in the kernel as well, in milliseconds.
func processorTime() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
}
