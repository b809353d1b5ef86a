package main

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
	"syscall"

	"github.com/volumekit/volumekit/examples/internal/cli"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
)

// deps is what the program needs of the machine; tests have others.
type deps struct {
	stdin     io.Reader
	root      bool // the user is root
	inside    bool // this is the copy in the namespace
	mounter   mount.Interface
	fake      *mounttest.Fake
	namespace func(name string, args ...string) *exec.Cmd
	privatize func() error
}

// insideVar tells the copy of the program in the namespace that it is one: it
// holds the process ID of its parent.
const insideVar = "PODVOLUMES_NAMESPACE_OF"

// machine returns the real ones.
func machine() deps {
	return deps{
		stdin:     os.Stdin,
		root:      os.Geteuid() == 0,
		inside:    os.Getenv(insideVar) == strconv.Itoa(os.Getppid()),
		mounter:   mount.New(mount.Config{}),
		fake:      mounttest.NewFake(mount.Config{}),
		namespace: mounttest.Command,
		privatize: mounttest.Privatize,
	}
}

// A place is a kernel to mount with.
type place struct {
	mount.Interface
	says string // to the user, about it
	dry  bool

	// resolve says where a path leads, as mounttest.Fake.Resolve does.
	resolve func(path string) (real string, readOnly bool, err error)
}

// errElsewhere: a copy of the program in a namespace has to do it.
var errElsewhere = errors.New("to be done in a namespace")

// choose finds out where this process may mount: on the machine, in the namespace
// that it is in already, or not at all.
func (d deps) choose(ctx context.Context, o options) (place, error) {
	switch {
	case o.down: // what is to be taken down is here, and nowhere else
		return d.real(""), nil
	case o.dryRun:
		return d.dry("-dry-run"), nil
	case d.inside:
		return d.insideNamespace(ctx)
	case d.root && d.tryMount(ctx) == nil:
		return d.real("Root: mounting on this machine."), nil
	case ctx.Err() != nil:
		return place{}, errInterrupted
	case o.keep:
		return place{}, errors.New("-keep: needs root: " +
			"what others mount, in a namespace of the program's own, ends with the program")
	}
	return place{}, errElsewhere
}

func (d deps) insideNamespace(ctx context.Context) (place, error) {
	err := d.privatize()
	if err == nil {
		err = d.tryMount(ctx)
	}
	if ctx.Err() != nil {
		return place{}, errInterrupted
	}
	if err != nil {
		return d.dry(fmt.Sprintf("not root on this machine, and user namespaces may not mount (%v)", err)), nil
	}
	return d.real("Not root on this machine: mounting in a user and mount namespace of our own."), nil
}

// tryMount mounts a directory on itself. Some hosts have a root who may not do
// that, or namespaces that are good for nothing.
func (d deps) tryMount(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "podvolumes-try-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return err
	}
	err = d.mounter.Mount(ctx, mount.Request{Source: dir, Target: dir})
	if errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(err, os.Remove(dir))
	}
	return errors.Join(err, util.UnmountPath(context.WithoutCancel(ctx), d.mounter, dir))
}

func (d deps) real(says string) place {
	unchanged := func(path string) (string, bool, error) { return path, false, nil }
	return place{Interface: d.mounter, says: says, resolve: unchanged}
}

func (d deps) dry(why string) place {
	says := "Nothing is mounted, this is an in-memory kernel: " + cli.OneLine(why) + "."
	return place{Interface: d.fake, says: says, dry: true, resolve: d.fake.RealPath}
}

// reexec runs the program in a user and mount namespace of its own. The error is
// that of a namespace that cannot be made.
func (d deps) reexec(ctx context.Context, args []string, c *console) (status int, err error) {
	// The copy dies with the thread that made it, so the thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := d.namespace("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), insideVar+"="+strconv.Itoa(os.Getpid()))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.stdin, c.stdout, c.stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		c.fail(fmt.Errorf("in its namespace: %w", err))
	}
	return c.status(), nil
}
