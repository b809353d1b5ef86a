//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

type programs struct {
	attach, attacher string
	isLeftOut        bool
}

func run(context.Context, options, io.Writer) error {
	return errors.New("an API server requires Linux")
}
