// Package tasks runs the parts of a program until the first one ends.
package tasks

import (
	"context"
	"errors"
)

// RunAll runs tasks until all have ended. The end of ctx, or of the first task, ends the context of the
// others. RunAll returns the errors of the tasks, apart from those of an ended context.
func RunAll(ctx context.Context, tasks ...func(context.Context) error) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(tasks))
	for _, task := range tasks {
		go func() {
			defer cancel()
			ended <- task(running)
		}()
	}
	var all error
	for range tasks {
		if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, context.Cause(ctx)) {
			all = errors.Join(all, err)
		}
	}
	return all
}
