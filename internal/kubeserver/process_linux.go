package kubeserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// A process is a running program.
type process struct {
	name string
	log  string // the file of its messages
	cmd  *exec.Cmd
	// ended is closed once the process has ended and is reaped.
	ended chan struct{}
}

// startProcess starts a program in dir and appends its output to a log file there. The kernel kills
// the process when the calling process ends.
func startProcess(dir, program string, args ...string) (*process, error) {
	p := &process{name: filepath.Base(program), ended: make(chan struct{})}
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
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// kill ends the process with SIGKILL and waits until it is reaped. A nil process has no effect.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// lastMessages returns the last 2000 bytes of the process's log, or the error of reading it.
func (p *process) lastMessages() string {
	const limit = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-limit):])
}
