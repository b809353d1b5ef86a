package fuseserver

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// A Process serves one file system.
type Process struct {
	mu       sync.Mutex // one command at a time
	commands io.WriteCloser
	replies  io.Reader
	ended    chan struct{} // closed when the process has ended
}

// Start starts the program, which calls [Serve], with an open /dev/fuse.
func Start(program *exec.Cmd, dev *os.File) (*Process, error) {
	program.ExtraFiles = []*os.File{dev}
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	commands, err := program.StdinPipe()
	if err != nil {
		return nil, err
	}
	replies, err := program.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &Process{commands: commands, replies: replies, ended: make(chan struct{})}
	return p, p.run(program)
}

// run keeps the thread that starts the program: the program dies with the thread.
func (p *Process) run(program *exec.Cmd) error {
	started := make(chan error)
	go func() {
		defer close(p.ended)
		runtime.LockOSThread()
		err := program.Start()
		started <- err
		if err == nil {
			_ = program.Wait()
		}
	}()
	return <-started
}

// Hang has the file system answer no request until Release.
func (p *Process) Hang() { p.command(commandHang) }

// Release has the file system answer again, also the requests that came since Hang.
func (p *Process) Release() { p.command(commandRelease) }

// Held returns how many requests came since Hang.
func (p *Process) Held() int { return int(p.command(commandHeld)) }

// Die kills the process.
func (p *Process) Die() {
	_ = p.commands.Close()
	<-p.ended
}

func (p *Process) command(c byte) (reply byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := make([]byte, 1)
	_, _ = p.commands.Write([]byte{c})
	_, _ = p.replies.Read(answer)
	return answer[0]
}
