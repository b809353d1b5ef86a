//go:build !linux

package atomicdir

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

func write(context.Context, string, layout, Options) (bool, error) {
	return false, fmt.Errorf("atomic directories on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
