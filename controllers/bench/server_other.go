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
