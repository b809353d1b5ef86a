package subpath

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// calls locks volume directories during a call, also after its caller has returned.
var calls keylock.Map

// errUncertain is the kind of the error of a Bind that has left its work unfinished.
var errUncertain = mount.ErrUncertain

// inTime runs work on a volume's directory in a pod until ctx ends. If work has begun and
// not ended, the error wraps kind, unless kind is nil.
func inTime[T any](ctx context.Context, podDir, volume string, kind error, work func() (T, error)) (T, error) {
	type ended struct {
		value T
		err   error
	}
	key := volumeDir(path.Clean(podDir), volume)
	e, began, err := keylock.Await(ctx, calls.Key(key), ctxend.Plugin, func() (ended, error) {
		value, err := work()
		return ended{value, err}, nil
	}, nil)
	switch {
	case err == nil:
		return e.value, e.err
	case began && kind != nil:
		err = fmt.Errorf("%w: %w", kind, err)
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return e.value, fmt.Errorf("subpaths of %s: %w", input.Quote(podDir), err)
}
