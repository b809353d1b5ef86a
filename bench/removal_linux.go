package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/volumekit/volumekit/util/scrub"
)

// measureRemoval compares the processor time that it takes to remove a tree, and
// prints it. A tree takes long to make, so there are few rounds.
func measureRemoval(ctx context.Context, dir string) error {
	const rounds, directories, files = 5, 100, 1000
	tree := filepath.Join(dir, "tree")
	var ours, theirs []float64
	sides := []side{{empty, &ours}, {removeAll, &theirs}}
	for range rounds {
		for _, s := range sides {
			if err := plant(tree, directories, files); err != nil {
				return err
			}
			begin := processorTime()
			if err := s.remove(ctx, tree); err != nil {
				return err
			}
			*s.times = append(*s.times, processorTime()-begin)
		}
		slices.Reverse(sides) // none is always the one with the fuller journal
	}
	fmt.Println("| work | ours, ms of CPU | os.RemoveAll, ms of CPU | ours/os |")
	fmt.Println("|---|--:|--:|--:|")
	fmt.Printf("| remove %d files | %.0f | %.0f | %.2f |\n", directories*files, median(ours), median(theirs), median(ours)/median(theirs))
	return nil
}

// A side of the comparison, and what it took.
type side struct {
	remove func(ctx context.Context, tree string) error
	times  *[]float64
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
