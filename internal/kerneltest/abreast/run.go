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

// Run runs the tasks side by side, and writes to out what they write, the first
// one's at once and the others' after it. When one fails the others are ended, and
// the error is the first failure. When ctx ends, they are ended, too. Nothing that
// they started is left, unless it has left their process groups. This process gets
// children of theirs, and reaps those in the groups.
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
				fail(fmt.Errorf("%s: %w", task.Title, err)) // the first one stays
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// patience is how long a command may take to end when it is told to, and then what
// it has started.
var patience = 10 * time.Second

func (t Task) run(ctx context.Context, out io.Writer) error {
	cmd := exec.CommandContext(ctx, t.Args[0], t.Args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = patience
	group(cmd)
	err := cmd.Run()
	endGroup(cmd)
	return err
}
