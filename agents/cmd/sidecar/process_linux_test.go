package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process is a program that a test kills and starts again.
type process struct {
	name    string
	command func() *exec.Cmd
	output  tail // of all runs

	servesDisks bool // it is a driver of disks

	mu    sync.Mutex // guards the rest
	cmd   *exec.Cmd  // nil: it does not run
	ended chan struct{}
	ends  []string // see ownEnds
}

// start starts the program. The kernel kills it if the test ends without the Cleanup.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd, ended, started := p.command(), make(chan struct{}), make(chan error)
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	go func() {
		// The kernel sends Pdeathsig when the thread that created the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.recordEnd(cmd, cmd.Wait())
		}
	}()
	err := <-started
	if err == nil {
		p.cmd, p.ended = cmd, ended
	}
	return err
}

// recordEnd records the end of a run that the test has not killed.
func (p *process) recordEnd(cmd *exec.Cmd, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == cmd {
		p.ends = append(p.ends, fmt.Sprintf("the %s has ended: %v", p.name, err))
	}
}

// ownEnds returns the ends of runs that the test has not killed.
func (p *process) ownEnds() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ends)
}

// kill kills the program by SIGKILL, and waits for its end.
func (p *process) kill() {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.cmd = nil
	p.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill() // fails if it has ended
		<-ended
	}
}

// A tail is the last part of the output of a program.
type tail struct {
	mu      sync.Mutex
	text    []byte
	refused []string // see refusals
}

const tailSize = 64 << 10

// Write implements io.Writer.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if refusal.Match(text) {
		t.refused = append(t.refused, string(text))
	}
	if len(t.text) > 2*tailSize {
		t.text = slices.Clone(t.text[len(t.text)-tailSize:])
	}
	return len(text), nil
}

// refusal matches the line of a driver that has refused a call which comes too early, such as the detach of a disk in
// use. A program writes a line of its log at once.
var refusal = regexp.MustCompile(`call=(ControllerPublish|ControllerUnpublish|Delete|NodeStage)Volume code=FailedPrecondition`)

// refusals returns the lines that match refusal.
func (t *tail) refusals() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.refused)
}

// String returns the text.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// buildPrograms begins to build programs. Wait returns the directory that has them.
func buildPrograms(t *testing.T, packages ...string) (wait func() (dir string)) {
	t.Helper()
	dir, output := t.TempDir(), &tail{}
	build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", dir}, packages...)...)
	build.Stdout, build.Stderr = output, output
	require.NoError(t, build.Start())
	return func() string {
		t.Helper()
		require.NoError(t, build.Wait(), output)
		return dir
	}
}
