//go:build !linux

package processgroup

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// Run needs Linux. It starts nothing.
func Run(_ context.Context, cmd *exec.Cmd, _ func()) error {
	return fmt.Errorf("run %s: %w", cmd.Path, errors.ErrUnsupported)
}
