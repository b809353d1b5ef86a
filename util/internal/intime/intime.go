// Package intime runs work that may wait for a file system and returns soon after its
// context ends, for package util and the packages that build on it.
package intime

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/util/ctxend"
)

// inside marks the context of work that Run runs.
type inside struct{}

// IsInside reports whether ctx is the one of work that Run runs.
func IsInside(ctx context.Context) bool { return ctx.Value(inside{}) != nil }

// Run runs work and returns soon after ctx ends, see [ctxend.Await]. Work that has not
// ended then continues, and the error is of the given kind. Work within work runs in the
// same goroutine: the outermost caller is the one that leaves.
func Run(ctx context.Context, kind error, work func(ctx context.Context) error) error {
	if IsInside(ctx) {
		return work(ctx)
	}
	type ended struct{ err error }
	e, err := ctxend.Await(ctx, ctxend.Plugin, func() (ended, error) {
		return ended{work(context.WithValue(ctx, inside{}, true))}, nil
	}, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return e.err
}
