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
