//go:build !linux

package loop

import (
	"context"
	"errors"
	"fmt"
)

var errNotHere = fmt.Errorf("loop devices: requires Linux: %w", errors.ErrUnsupported)

// Attach fails: loop devices require Linux.
func Attach(_ context.Context, c Config) (Device, error) {
	if err := c.check(); err != nil {
		return Device{}, err
	}
	return Device{}, errNotHere
}

// AttachFileDevice fails: loop devices require Linux.
func AttachFileDevice(_ context.Context, _ string, c Config) (Device, error) {
	if err := checkName(c.Name); err != nil {
		return Device{}, err
	}
	return Device{}, errNotHere
}

// GetLoopDevice fails: loop devices require Linux.
func GetLoopDevice(context.Context, string) (Device, error) { return Device{}, errNotHere }

// DetachFileDevice fails: loop devices require Linux.
func DetachFileDevice(context.Context, string) error { return errNotHere }

// Status fails: loop devices require Linux.
func Status(context.Context, string) (Device, error) { return Device{}, errNotHere }

// List fails: loop devices require Linux.
func List(context.Context) ([]Device, error) { return nil, errNotHere }

// Named fails: loop devices require Linux.
func Named(_ context.Context, name string) ([]Device, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return nil, errNotHere
}

// Detach fails: loop devices require Linux.
func Detach(context.Context, Device) error { return errNotHere }

// Resize fails: loop devices require Linux.
func Resize(context.Context, Device) error { return errNotHere }
