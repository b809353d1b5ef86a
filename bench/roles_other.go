//go:build !linux

package main

import (
	"context"
	"errors"
)

const roleVar = "VOLUMEKIT_BENCH_ROLE"

func runRole(context.Context, string, options) error { return errors.ErrUnsupported }

func measureAll(context.Context, options) ([]Row, error) { return nil, errors.ErrUnsupported }
