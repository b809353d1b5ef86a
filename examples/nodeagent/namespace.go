package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// insideVar tells the copy of the program in the namespace that it is one: it holds the
// process ID of its parent.
const insideVar = "NODEAGENT_NAMESPACE_OF"

func inside() bool { return os.Getenv(insideVar) == strconv.Itoa(os.Getppid()) }

const noNamespace = "no user and mount namespace to be had"

// reexec runs the program in a user and mount namespace of its own.
func reexec(ctx context.Context, args []string, stdout, stderr io.Writer) (status int) {
	// The copy dies with the thread that made it, so the thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := mounttest.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), insideVar+"="+strconv.Itoa(os.Getpid()))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Start()
	if err == nil {
		defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
		err = cmd.Wait()
	}
	if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) && exit.Exited() {
		return cmd.ProcessState.ExitCode()
	}
	_, _ = fmt.Fprintf(stderr, "nodeagent: %s: %v\n", noNamespace, err)
	return 1
}
