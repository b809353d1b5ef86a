//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

func onServer(context.Context, options, io.Writer) error {
	return errors.New("mounting requires Linux: see -no-server")
}

func onProvisionServer(context.Context, provisionOptions, io.Writer) error {
	return errors.New("an API server requires Linux: see -no-server")
}

func onBindServer(context.Context, bindOptions, io.Writer) error {
	return errors.New("an API server requires Linux: see -no-server")
}

func isProvisioner() bool { return false }
