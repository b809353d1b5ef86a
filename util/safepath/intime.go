package safepath

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// calls locks paths during calls whose context can end.
var calls keylock.Map

// inTime runs work until ctx ends, see [ctxend.Await]. Calls for one path wait for each
// other, also for calls whose callers have returned.
func inTime[T any](ctx context.Context, op, name string, work func() (T, error)) (value T, err error) {
	value, _, err = keylock.Await(ctx, calls.Key(path.Clean(name)), ctxend.Kernel, work, nil)
	if wrapped := (*fs.PathError)(nil); err == nil || errors.As(err, &wrapped) {
		return value, err
	}
	return value, &fs.PathError{Op: op, Path: name, Err: err}
}

func inTimeOf(ctx context.Context, op, name string, work func() error) error {
	_, err := inTime(ctx, op, name, func() (struct{}, error) { return struct{}{}, work() })
	return err
}
