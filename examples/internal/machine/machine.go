// Package machine is the machine that an example program runs on: the kernels that it may
// mount with, and the resources of the node.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/namespace"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// A Machine runs a program; tests make others than [New] does.
type Machine struct {
	Program   namespace.Program
	Root      bool // the user is root
	Inside    bool // this is the copy of the program in the namespace
	Mounter   mount.Interface
	Devices   mount.Interface // mounts devices, too
	Fake      *mounttest.Fake
	Stdin     io.Reader
	Namespace func(name string, args ...string) *exec.Cmd
	Privatize func() error
}

// New returns this machine.
func New(program namespace.Program) Machine {
	return Machine{
		Program:   program,
		Root:      os.Geteuid() == 0,
		Inside:    program.IsInside(),
		Mounter:   mount.New(mount.Config{}),
		Devices:   mount.New(mount.Config{Allow: mount.Allow{Dev: true}}),
		Fake:      mounttest.NewFake(mount.Config{}),
		Stdin:     os.Stdin,
		Namespace: mounttest.Command,
		Privatize: mounttest.Privatize,
	}
}

// A Kernel is one to mount with.
type Kernel struct {
	mount.Interface
	Description string          // for the user
	InMemory    bool            // nothing is mounted
	WithDevices mount.Interface // mounts device files so that they can be used
	// RealPath returns where a path leads, as mounttest.Fake.RealPath does.
	RealPath func(path string) (real string, readOnly bool, err error)
}

// Unwrap returns the mounter of the kernel, see [mount.As].
func (k Kernel) Unwrap() mount.Interface { return k.Interface }

// ErrElsewhere is the error of Choose if [Machine.Rerun] has to run the program.
var ErrElsewhere = errors.New("to be done in a namespace")

// ErrInterrupted is the error of a program whose context has ended.
var ErrInterrupted = errors.New("interrupted")

// A Wish lists the needs of a program.
type Wish struct {
	Here  bool // the one that this process runs on
	Dry   bool // the one in memory
	Stays bool // its mounts stay when the program ends
}

// Choose returns the kernel that this process may mount with: the machine's for root, the
// one of the namespace for the copy in it, or one in memory.
func (m Machine) Choose(ctx context.Context, w Wish) (Kernel, error) {
	switch {
	case w.Here:
		return m.Real(""), nil
	case w.Dry:
		return m.Dry("-dry-run"), nil
	case m.Inside:
		return m.insideNamespace(ctx)
	case m.Root && m.Program.TryMount(ctx, m.Mounter) == nil:
		return m.Real("Root: mounting on this machine."), nil
	case ctx.Err() != nil:
		return Kernel{}, ErrInterrupted
	case w.Stays:
		return Kernel{}, errors.New("-keep: requires root: the mounts of other users are in a namespace that ends with the program")
	}
	return Kernel{}, ErrElsewhere
}

func (m Machine) insideNamespace(ctx context.Context) (Kernel, error) {
	err := m.Privatize()
	if err == nil {
		err = m.Program.TryMount(ctx, m.Mounter)
	}
	if ctx.Err() != nil {
		return Kernel{}, ErrInterrupted
	}
	if err != nil {
		return m.Dry(fmt.Sprintf("not root on this machine, and user namespaces may not mount (%v)", err)), nil
	}
	return m.Real("Not root on this machine: mounting in a user and mount namespace of our own."), nil
}

// Real returns the kernel that this process runs on.
func (m Machine) Real(description string) Kernel {
	unchanged := func(path string) (string, bool, error) { return path, false, nil }
	return Kernel{Interface: m.Mounter, WithDevices: m.Devices, Description: description, RealPath: unchanged}
}

// Dry returns the kernel in memory, and tells the user why.
func (m Machine) Dry(why string) Kernel {
	description := "Nothing is mounted, this is an in-memory kernel: " + cli.OneLine(why) + "."
	return Kernel{Interface: m.Fake, WithDevices: m.Fake, Description: description, InMemory: true, RealPath: m.Fake.RealPath}
}

// Rerun runs the program in a user and mount namespace of its own, and returns its exit
// status; or, where there is no namespace to be had, the kernel in memory.
func (m Machine) Rerun(ctx context.Context, args []string, stdout, stderr io.Writer) (instead Kernel, status int, err error) {
	cmd := m.Namespace("/proc/self/exe", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = m.Stdin, stdout, stderr
	status, err = m.Program.Run(ctx, cmd)
	if errors.Is(err, namespace.ErrNone) {
		return m.Dry(fmt.Sprintf("not root on this machine, and %v", err)), 0, nil
	}
	return Kernel{}, status, err
}
