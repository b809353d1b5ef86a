//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

func run(context.Context, options, io.Writer) error {
	return errors.New("volumes of CSI drivers require Linux")
}

func isSubject() bool { return false }
