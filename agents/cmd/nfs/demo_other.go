//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

func inGuest([]string) (status int, ok bool) { return 0, false }

func demo(context.Context, options, *console) error {
	return fmt.Errorf("-demo on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
