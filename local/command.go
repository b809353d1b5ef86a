package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/util/diskprobe"
	utilexec "k8s.io/utils/exec"
)

// programs runs the programs of mount-utils for one operation, and kills them with
// all that they have started when its context ends.
type programs struct {
	ctx context.Context
	// found is what the device carries: the answer of blkid where that is missing.
	found []diskprobe.Found
	// fsType is the answer of blkid if it is known anyway.
	fsType string
	// disk is what they work on: they get it open. Nil: its node.
	disk disk
	// beforeFormat runs before mkfs; without it none is run, whatever blkid says.
	beforeFormat func() error
	// refused is its error: mount-utils passes on the text alone.
	refused error
	// checked: fsck has been run.
	checked bool
	// run makes the command; nil: one of the system.
	run func(ctx context.Context, name string, args ...string) utilexec.Cmd
}

var _ utilexec.Interface = (*programs)(nil)

// Command implements utilexec.Interface of k8s.io/utils.
func (p *programs) Command(name string, args ...string) utilexec.Cmd {
	return p.CommandContext(p.ctx, name, args...)
}

var errMayNotFormat = errors.New("the device carries something and is not formatted")

// CommandContext implements utilexec.Interface of k8s.io/utils.
func (p *programs) CommandContext(ctx context.Context, name string, args ...string) utilexec.Cmd {
	if strings.HasPrefix(name, "mkfs") {
		if p.refused = p.mayFormat(); p.refused != nil {
			return answer{err: p.refused}
		}
	}
	if name == "blkid" {
		if answer, ok := p.blkid(); ok {
			return answer
		}
	}
	if name == "fsck" {
		p.checked = true
		name = p.fsck()
	}
	run := p.run
	if run == nil {
		run = newCommand
	}
	return p.lend(run(ctx, name, p.byHandle(args)...))
}

// fsck is what fsck(8) starts, if it is there. That itself asks which path its argument
// has, and hands on the path, where another device may be by then. Those of other file
// systems than ext2 and its successors do nothing.
func (p *programs) fsck() string {
	const wrapper = "fsck"
	there, ok := diskprobe.Only(p.found)
	if !ok || !strings.HasPrefix(there.Name, "ext") {
		return wrapper
	}
	program := wrapper + "." + there.Name
	if _, err := p.LookPath(program); err != nil {
		return wrapper
	}
	return program
}

func (p *programs) mayFormat() error {
	if p.beforeFormat == nil {
		return errMayNotFormat
	}
	return p.beforeFormat()
}

// byHandle replaces the disk's node by what it is for the program.
func (p *programs) byHandle(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if p.disk != nil && arg == p.disk.facts().node {
			args[i] = p.disk.handle()
		}
	}
	return args
}

// lend gives the program the disk as its descriptor 3.
func (p *programs) lend(cmd utilexec.Cmd) utilexec.Cmd {
	if c, ok := cmd.(command); ok && p.disk != nil {
		c.ExtraFiles = []*os.File{p.disk.file()}
	}
	return cmd
}

// LookPath implements utilexec.Interface of k8s.io/utils.
func (p *programs) LookPath(name string) (string, error) {
	if p.run != nil {
		return name, nil
	}
	return utilexec.New().LookPath(name)
}

// blkid answers as the program would, if there is none or it need not be asked.
func (p *programs) blkid() (answer, bool) {
	if p.fsType != "" {
		return answer{output: "TYPE=" + p.fsType + "\n"}, true
	}
	if _, err := p.LookPath("blkid"); err == nil {
		return answer{}, false
	}
	if len(p.found) == 0 {
		return answer{err: utilexec.CodeExitError{Code: 2, Err: errors.New("nothing found")}}, true
	}
	if there, ok := diskprobe.Only(p.found); ok {
		return answer{output: "TYPE=" + there.Name + "\n"}, true
	}
	return answer{output: "PTTYPE=unknown\n"}, true
}

// An answer is a command that need not be run. It has no other methods.
type answer struct {
	utilexec.Cmd
	output string
	err    error
}

// CombinedOutput implements utilexec.Cmd of k8s.io/utils.
func (a answer) CombinedOutput() ([]byte, error) { return []byte(a.output), a.err }

// A command is one that is run with a process group of its own, and that ends with
// this process.
type command struct{ *exec.Cmd }

func newCommand(ctx context.Context, name string, args ...string) utilexec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	separate(c)
	c.WaitDelay = 10 * time.Second
	return command{c}
}

func (c command) SetDir(dir string)       { c.Dir = dir }
func (c command) SetStdin(in io.Reader)   { c.Stdin = in }
func (c command) SetStdout(out io.Writer) { c.Stdout = out }
func (c command) SetStderr(out io.Writer) { c.Stderr = out }
func (c command) SetEnv(env []string)     { c.Env = env }

// Run implements utilexec.Cmd of k8s.io/utils.
func (c command) Run() error { return c.onOneThread(c.Cmd.Run) }

// CombinedOutput implements utilexec.Cmd of k8s.io/utils.
func (c command) CombinedOutput() (out []byte, err error) {
	err = c.onOneThread(func() (err error) {
		out, err = c.Cmd.CombinedOutput()
		return err
	})
	return out, err
}

// Output implements utilexec.Cmd of k8s.io/utils.
func (c command) Output() (out []byte, err error) {
	err = c.onOneThread(func() (err error) {
		out, err = c.Cmd.Output()
		return err
	})
	return out, err
}

// onOneThread keeps the thread from ending before the program does, which would end
// with it.
func (c command) onOneThread(run func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return asTheirs(run())
}

// Start is not supported: mount-utils waits for each program.
func (c command) Start() error { return errors.ErrUnsupported }

// Stop ends the command: all of them end with their context anyway.
func (c command) Stop() {
	if c.Cancel != nil && c.Process != nil {
		_ = c.Cancel()
	}
}

// asTheirs gives an error the type that mount-utils looks for.
func asTheirs(err error) error {
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return utilexec.ErrExecutableNotFound
	case errors.As(err, &exit):
		return &utilexec.ExitErrorWrapper{ExitError: exit}
	case err != nil:
		return fmt.Errorf("run: %w", err)
	}
	return nil
}
