package kubeserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// A Process is a running program.
type Process struct {
	name string
	log  string // the file of its messages
	cmd  *exec.Cmd
	// ended is closed once the process has ended and is reaped.
	Ended chan struct{}
}

// StartProcess starts a program in dir and appends its output to a log file there. The kernel kills
// the process when the calling process ends.
func StartProcess(dir, program string, args ...string) (*Process, error) {
	p := &Process{name: filepath.Base(program), Ended: make(chan struct{})}
	p.log = filepath.Join(dir, p.name+".log")
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread that created the process ends, so the
		// goroutine keeps its thread until the process has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		_ = log.Close()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // the log has the reason
		}
		close(p.Ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// Kill ends the process with SIGKILL and waits until it is reaped. A nil Process has no effect.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.Ended
}

// Terminate ends the process with SIGTERM and waits until it is reaped. A nil Process has no effect.
func (p *Process) Terminate() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.Ended
}

// LastMessages returns the last 2000 bytes of the process's log, or the error of reading it.
func (p *Process) LastMessages() string {
	const limit = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-limit):])
}
