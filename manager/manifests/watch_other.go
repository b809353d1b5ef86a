//go:build !linux

package manifests

import (
	"context"
	"errors"
)

func watch(context.Context, string, func()) error { return errors.ErrUnsupported }
