//go:build !linux

package ownership

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

func apply(_ context.Context, _ string, _ Options, _ *tally, opened func()) error {
	opened()
	return fmt.Errorf("changing owners on %s: requires Linux: %w", runtime.GOOS, errors.ErrUnsupported)
}
