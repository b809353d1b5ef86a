package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/internal/kerneltest/guest"
	"github.com/volumekit/volumekit/internal/kerneltest/kernels"
)

// A Test is a test binary to run.
type Test struct {
	Kernel kernels.Kernel
	// Program is the test binary. The program of this process must call guest.Main when it
	// is the first process.
	Program string
	Args    []string
	Output  io.Writer
	// BootTime limits the time from the start of a kernel to the start of the test. Zero
	// means a minute; an idle machine needs a second or two.
	BootTime time.Duration
	// Memory is the size of the kernel's memory, such as "2G". Empty: 512M.
	Memory string
	// Parameters are more parameters of the kernel, such as "security=selinux".
	Parameters []string
}

// Run runs a test in a kernel of its own, in the directory and environment of this process,
// and returns the test's exit code. It retries once a kernel that does not start, hangs, or
// ends before the test does; the test runs once. When ctx ends, the kernel ends.
func Run(ctx context.Context, t Test) (code int, err error) {
	r, err := t.boot(ctx)
	if err == nil && !r.ended && ctx.Err() == nil {
		_, _ = fmt.Fprintf(os.Stderr, "%v\nOnce more, with a new kernel.\n", r.failure())
		r, err = t.boot(ctx)
	}
	switch {
	case err != nil:
		return guest.Failed, err
	case r.ended:
		return r.code, nil
	case ctx.Err() != nil:
		return guest.Failed, context.Cause(ctx)
	}
	return guest.Failed, r.failure()
}

// boot starts the kernel once, and copies the test's tally if the test has ended.
func (t Test) boot(ctx context.Context) (r report, err error) {
	work, err := os.MkdirTemp("", "umlrun-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	results := filepath.Join(work, "results")
	if err := os.Mkdir(results, 0o755); err != nil {
		return r, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return r, err
	}
	image := filepath.Join(work, "initrd")
	task := newTask(t.Args, os.Environ(), dir, results)
	if err := writeImage(image, t.Program, t.Kernel.Modules, task); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit(t.Args))
	defer cancel()
	r, err = t.start(ctx, work, image)
	if err != nil || !r.ended {
		return r, err
	}
	return r, appendFile(os.Getenv(countVar), countFile(results))
}

// appendFile appends a file to another one, if both exist.
func appendFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil || to == "" {
		return nil
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
