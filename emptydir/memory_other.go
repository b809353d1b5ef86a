//go:build !linux

package emptydir

import (
	"errors"
	"fmt"
	"runtime"
)

func nodeMemory() (int64, error) {
	return 0, fmt.Errorf("the size of the memory on %s: requires Linux: %w", runtime.GOOS, errors.ErrUnsupported)
}
