//go:build !linux

package flexvolume

import (
	"context"
	"errors"
	"fmt"
	"os"
)

func inspect(_, _, at string) (version, error) {
	return version{}, fmt.Errorf("%s: requires Linux: %w", at, errors.ErrUnsupported)
}

func isDirectory(_ context.Context, dir string) (bool, error) {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir(), nil
}
