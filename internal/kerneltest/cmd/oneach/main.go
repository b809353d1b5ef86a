// Oneach runs a command for each of several words in parallel, and prints the outputs one
// after another:
//
//	oneach 6.1 6.12 -- go test -exec "umlrun -kernel {}" ./mount
//
// "{}" in the command stands for the word. When one fails the others are ended;
// the exit code is the first failure's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/kerneltest/abreast"
)

func main() {
	tasks := parse(os.Args[1:])
	if len(tasks) == 0 {
		fmt.Fprintln(os.Stderr, "usage: oneach WORD... -- COMMAND [ARGUMENT]...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := abreast.Run(ctx, os.Stdout, tasks...); err != nil {
		fmt.Fprintln(os.Stderr, "oneach:", err)
		os.Exit(exitCode(err))
	}
}

// parse returns nothing if the arguments contain no command.
func parse(args []string) (tasks []abreast.Task) {
	at := slices.Index(args, "--")
	if at < 0 || at+1 == len(args) {
		return nil
	}
	for _, word := range args[:at] {
		task := abreast.Task{Title: word}
		for _, arg := range args[at+1:] {
			task.Args = append(task.Args, strings.ReplaceAll(arg, "{}", word))
		}
		tasks = append(tasks, task)
	}
	return tasks
}

func exitCode(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
