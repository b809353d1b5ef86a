//go:build !linux

package util

import (
	"errors"
	"fmt"
	"runtime"
)

var errOnlyLinux = fmt.Errorf("volumes that are directories on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func own(string, PodDir) error               { return errOnlyLinux }
func readNote(string, int64) ([]byte, error) { return nil, errOnlyLinux }
func writeNote(string, string, []byte) error { return errOnlyLinux }
func removeNote(string) error                { return errOnlyLinux }
