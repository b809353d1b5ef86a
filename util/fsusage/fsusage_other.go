//go:build !linux

package fsusage

import (
	"errors"
	"fmt"
	"runtime"
)

var statfs = func(path string) (Usage, error) {
	return Usage{}, fmt.Errorf("statfs %s on %s: %w", path, runtime.GOOS, errors.ErrUnsupported)
}

var mountAt = func(string) uint64 { return 0 }
