//go:build !linux

package dirwatch

import (
	"context"
	"errors"
)

// Watch returns [errors.ErrUnsupported].
func Watch(context.Context, string, Func) error { return errors.ErrUnsupported }
