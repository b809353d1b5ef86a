package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A subject measures one thing in a directory that is empty, and prints a table in
// Markdown.
type subject struct {
	name    string
	measure func(ctx context.Context, dir string) error
}

// subjects are those that work on files, each in a file of this package.
var subjects = []subject{
	{"removal", measureRemoval},
	{"ownership", measureOwnership},
	{"atomicdir", measureAtomicdir},
	{"emptydir", measureEmptyDir},
	{"manager", measureManager},
}

// measureFiles measures all subjects, or only one.
func measureFiles(ctx context.Context, only string) error {
	dir, err := os.MkdirTemp("", "volumekit-bench")
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	end, err := onDisk(ctx, dir)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: no file system of its own, so measuring in %s: %v\n", dir, err)
	}
	err = measureEach(ctx, dir, only)
	return errors.Join(err, end(), os.RemoveAll(dir))
}

var errNoSubject = errors.New("there is no such subject")

func measureEach(ctx context.Context, dir, only string) error {
	found := false
	for _, s := range subjects {
		if only != "" && only != s.name {
			continue
		}
		found = true
		own := filepath.Join(dir, s.name)
		if err := os.Mkdir(own, 0o755); err != nil {
			return err
		}
		fmt.Println()
		if err := s.measure(ctx, own); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if !found {
		return fmt.Errorf("%q: %w", only, errNoSubject)
	}
	return nil
}
