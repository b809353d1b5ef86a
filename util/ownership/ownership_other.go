//go:build !linux

package ownership

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

func apply(context.Context, string, Options, *tally) error {
	return fmt.Errorf("changing owners on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
