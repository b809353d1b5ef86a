//go:build !linux

package subpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/volumekit/volumekit/mount"
)

var errOnlyLinux = fmt.Errorf("subpaths on %s: requires Linux: %w", runtime.GOOS, errors.ErrUnsupported)

func open(context.Context, Request) (*os.File, bool, error)       { return nil, false, errOnlyLinux }
func makeTarget(Request, bool) error                              { return errOnlyLinux }
func clearTarget(context.Context, mount.Interface, Request) error { return errOnlyLinux }
func cleanup(context.Context, cleaner, string, string) error      { return errOnlyLinux }
func volumes(string) ([]string, error)                            { return nil, errOnlyLinux }
