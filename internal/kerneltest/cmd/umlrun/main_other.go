//go:build !linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintln(os.Stderr, "umlrun:", fmt.Errorf("User-Mode Linux on %s: %w", runtime.GOOS, errors.ErrUnsupported))
	os.Exit(1)
}
