package cli

import (
	"context"

	"github.com/volumekit/volumekit/internal/tasks"
)

// RunAll runs the tasks of a program as [tasks.RunAll] does.
func RunAll(ctx context.Context, all ...func(context.Context) error) error {
	return tasks.RunAll(ctx, all...)
}
