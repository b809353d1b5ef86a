package abreast

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// A Task is a command to run.
type Task struct {
	Title string // for errors
	Args  []string
}

// Run runs the tasks in parallel. It copies their outputs to out in the tasks' order: the
// first one's at once, the others' after it. When a task fails, or ctx ends, Run ends the
// others, and returns the first failure. It leaves no process behind, except those that
// have left their process groups. This process adopts orphaned descendants of the tasks,
// and reaps those in the groups.
func Run(ctx context.Context, out io.Writer, tasks ...Task) error {
	if err := adopt(); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	turns := newTurns(out, len(tasks))
	var running sync.WaitGroup
	for i, task := range tasks {
		running.Go(func() {
			defer turns.end(i)
			if err := task.run(ctx, turn{turns, i}); err != nil {
				fail(fmt.Errorf("%s: %w", task.Title, err)) // the first failure wins
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// endLimit limits the time from the signal to end until the end of a command, and then of
// its descendants.
var endLimit = 10 * time.Second

func (t Task) run(ctx context.Context, out io.Writer) error {
	cmd := exec.CommandContext(ctx, t.Args[0], t.Args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = endLimit
	group(cmd)
	err := cmd.Run()
	endGroup(cmd)
	return err
}
