//go:build !linux

package docker

import (
	"context"
	"errors"
)

// ownRoot is not possible: the driver mounts nothing.
func ownRoot(context.Context, string, options) error { return errors.ErrUnsupported }
