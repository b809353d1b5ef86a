//go:build !linux

package main

import (
	"context"
	"errors"
	"os/exec"

	"github.com/volumekit/volumekit/mount/mounttest"
)

func inOwnMounts(name string, args ...string) *exec.Cmd { return mounttest.Command(name, args...) }

func onDisk(context.Context, string) (end func() error, err error) {
	return func() error { return nil }, errors.ErrUnsupported
}
