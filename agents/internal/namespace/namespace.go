// Package namespace runs example programs in a user and mount namespace of their own,
// where an ordinary user may mount, and no other process sees the mounts.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
)

// None is the message where no namespace can be created.
const None = "no user and mount namespace to be had"

// ErrNone is the error of a namespace that cannot be made.
var ErrNone = errors.New(None)

// A Program is the name of a program.
type Program string

// Variable is the environment variable that marks the copy of the program in the
// namespace: it holds the process ID of its parent.
func (p Program) Variable() string { return strings.ToUpper(string(p)) + "_NAMESPACE_OF" }

// IsInside reports whether this process is the copy in the namespace.
func (p Program) IsInside() bool { return os.Getenv(p.Variable()) == strconv.Itoa(os.Getppid()) }

// Enter is the first call of the copy: it makes its mounts invisible outside.
func (p Program) Enter() error {
	if err := mounttest.Privatize(); err != nil {
		return fmt.Errorf("%w: %w", ErrNone, err)
	}
	return nil
}

// Rerun runs the program in a user and mount namespace of its own, and returns its exit
// status. When ctx ends, it sends the copy SIGTERM.
func (p Program) Rerun(ctx context.Context, args []string, stdout, stderr io.Writer) (status int) {
	cmd := mounttest.Command("/proc/self/exe", args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	status, err := p.Run(ctx, cmd)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", p, err)
		return 1
	}
	return status
}

// Run runs a command in a namespace, of mounttest.Command, as the copy of the program, and
// returns its exit status. The error wraps [ErrNone] if the copy did not start.
func (p Program) Run(ctx context.Context, cmd *exec.Cmd) (status int, err error) {
	// The copy dies with the thread that created it, so the thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Env = append(os.Environ(), p.Variable()+"="+strconv.Itoa(os.Getpid()))
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNone, err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) && exit.Exited() {
		return cmd.ProcessState.ExitCode(), nil
	}
	return 0, fmt.Errorf("run in a namespace: %w", err)
}

// TryMount mounts a directory on itself, and unmounts it. Some hosts have a root that may
// not mount, or namespaces in which mounting fails.
func (p Program) TryMount(ctx context.Context, mounter mount.Interface) (err error) {
	dir, err := os.MkdirTemp("", string(p)+"-try-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return err
	}
	err = mounter.Mount(ctx, mount.Request{Source: dir, Target: dir})
	if errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(err, os.Remove(dir))
	}
	return errors.Join(err, util.UnmountPath(context.WithoutCancel(ctx), mounter, dir))
}
