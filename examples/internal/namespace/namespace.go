// Package namespace runs example programs in a user and mount namespace of their own,
// where an ordinary user may mount, and nobody else sees it.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// None is what is said where no namespace is to be had.
const None = "no user and mount namespace to be had"

// A Program is the name of one.
type Program string

// Variable tells the copy of the program in the namespace that it is one: it holds the
// process ID of its parent.
func (p Program) Variable() string { return strings.ToUpper(string(p)) + "_NAMESPACE_OF" }

// IsInside reports whether this process is the copy in the namespace.
func (p Program) IsInside() bool { return os.Getenv(p.Variable()) == strconv.Itoa(os.Getppid()) }

// Enter is for the copy to begin with: what it mounts is not seen outside.
func (p Program) Enter() error {
	if err := mounttest.Privatize(); err != nil {
		return fmt.Errorf("%s: %w", None, err)
	}
	return nil
}

// Rerun runs the program in a user and mount namespace of its own, and returns its exit
// status. When ctx ends, the copy is told to end.
func (p Program) Rerun(ctx context.Context, args []string, stdout, stderr io.Writer) (status int) {
	// The copy dies with the thread that made it, so the thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := mounttest.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), p.Variable()+"="+strconv.Itoa(os.Getpid()))
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Start()
	if err == nil {
		defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
		err = cmd.Wait()
	}
	if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) && exit.Exited() {
		return cmd.ProcessState.ExitCode()
	}
	_, _ = fmt.Fprintf(stderr, "%s: %s: %v\n", p, None, err)
	return 1
}
