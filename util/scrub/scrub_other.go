//go:build !linux

package scrub

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

var errOnlyLinux = fmt.Errorf("scrubbing on %s: requires Linux: %w", runtime.GOOS, errors.ErrUnsupported)

func openRoot(string) (int, Identity, error) { return -1, Identity{}, errOnlyLinux }
func closeDir(int) error                     { return errOnlyLinux }

func deleteAll(context.Context, *Root, Options, *tally) error   { return errOnlyLinux }
func deleteTrash(context.Context, *Root, Options, *tally) error { return errOnlyLinux }
func moveAside(context.Context, *Root, Options, *tally) error   { return errOnlyLinux }
func check(context.Context, *Root, Options, *tally) error       { return errOnlyLinux }
