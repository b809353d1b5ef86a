package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// queryInTime queries a server until ctx ends. A query of a dead server continues in a goroutine of
// its own: it ends when the server answers, when the volume is torn down, or with the
// program.
func queryInTime[T any](ctx context.Context, question func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := question()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("the server does not answer: %w", context.Cause(ctx))
	}
}

// fewNames returns some names of a directory.
func fewNames(ctx context.Context, dir string) (string, error) {
	const few = 5
	names, err := queryInTime(ctx, func() ([]string, error) { return firstNames(dir, few+1) })
	if err != nil {
		return "", fmt.Errorf("files: %w", err)
	}
	if len(names) == 0 {
		return "none", nil
	}
	slices.Sort(names)
	if len(names) > few {
		names[few] = "and more"
	}
	return strings.Join(names, ", "), nil
}

func firstNames(dir string, n int) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, errors.Join(err, f.Close())
}
