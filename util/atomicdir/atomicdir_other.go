//go:build !linux

package atomicdir

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

func write(context.Context, string, layout, Options, *commit) (bool, error) {
	return false, fmt.Errorf("atomic directories on %s: requires Linux: %w", runtime.GOOS, errors.ErrUnsupported)
}
