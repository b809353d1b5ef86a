//go:build !linux

package mount

import (
	"errors"
	"fmt"
	"runtime"
)

var errOnlyLinux = fmt.Errorf("mounting on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func (m *Mounter) mount(*claim, Request, Options) error { return errOnlyLinux }
func (m *Mounter) sweepStages()                         {}
func unmount(*claim, string) error                      { return errOnlyLinux }
func isMountPoint(string) (bool, error)                 { return false, errOnlyLinux }
func mountRefs(string) ([]string, error)                { return nil, errOnlyLinux }
func readTable() (Table, error)                         { return nil, errOnlyLinux }

// Tiers returns the tiers that the running kernel offers: none.
func Tiers() []Tier { return nil }
