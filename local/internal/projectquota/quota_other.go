//go:build !linux

package projectquota

import (
	"errors"
	"fmt"
)

var errNotHere = fmt.Errorf("%w: requires Linux: %w", ErrOff, errors.ErrUnsupported)

// Check fails: it needs Linux.
func Check(string) error { return errNotHere }

// Query fails: it needs Linux.
func Query(string, uint32) (Use, error) { return Use{}, errNotHere }

// SetLimit fails: it needs Linux.
func SetLimit(string, uint32, int64) error { return errNotHere }

// ProjectOf fails: it needs Linux.
func ProjectOf(string) (uint32, error) { return 0, errNotHere }

// Assign fails: it needs Linux.
func Assign(string, uint32) error { return errNotHere }
