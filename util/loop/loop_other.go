//go:build !linux

package loop

import (
	"errors"
	"fmt"
)

var errNotHere = fmt.Errorf("loop devices: %w", errors.ErrUnsupported)

// Attach fails: loop devices are Linux's.
func Attach(c Config) (Device, error) {
	if err := c.check(); err != nil {
		return Device{}, err
	}
	return Device{}, errNotHere
}

// Status fails: loop devices are Linux's.
func Status(string) (Device, error) { return Device{}, errNotHere }

// List fails: loop devices are Linux's.
func List() ([]Device, error) { return nil, errNotHere }

// Named fails: loop devices are Linux's.
func Named(name string) ([]Device, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return nil, errNotHere
}

// Detach fails: loop devices are Linux's.
func Detach(Device) error { return errNotHere }

// Resize fails: loop devices are Linux's.
func Resize(Device) error { return errNotHere }
