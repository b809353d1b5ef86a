package kubeserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Program is a process that uses a server with all rights. It ends with the calling process.
type Program struct{ process *Process }

// StartProgram starts a program with the flag --kubeconfig and more arguments. It waits for nothing.
func (s *Server) StartProgram(program string, args ...string) (*Program, error) {
	dir, err := os.MkdirTemp(s.dir, filepath.Base(program))
	if err != nil {
		return nil, err
	}
	kubeconfig, err := s.WriteKubeconfig(dir)
	if err != nil {
		return nil, err
	}
	p, err := StartProcess(dir, program, append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// unlimited are the flags that lift the limits of the calls of a program of the Kubernetes project.
var unlimited = []string{"--kube-api-qps=100000", "--kube-api-burst=100000"}

// StartControllerManager is [Server.StartProgram] for kube-controller-manager with some of its controllers, without
// limits of its calls. The controllers work once they have their caches.
func (s *Server) StartControllerManager(program string, controllers []string, args ...string) (*Program, error) {
	flags := append([]string{"--leader-elect=false", "--secure-port=0", "--controllers=" + strings.Join(controllers, ",")}, unlimited...)
	return s.StartProgram(program, append(flags, args...)...)
}

// StartSidecar is [Server.StartProgram] for a [Sidecar] of the driver at a socket, without limits of its calls to the
// API server.
func (s *Server) StartSidecar(program, socket string, args ...string) (*Program, error) {
	return s.StartProgram(program, append(append([]string{"--csi-address=" + socket}, unlimited...), args...)...)
}

// Stop kills the program, and returns its processor time.
func (p *Program) Stop() time.Duration {
	p.process.Kill()
	state := p.process.cmd.ProcessState
	return state.UserTime() + state.SystemTime()
}

// Messages returns the last messages of the program, for failures.
func (p *Program) Messages() string { return p.process.LastMessages() }

// A ProgramUsage has the resources that a program has used.
type ProgramUsage struct {
	CPU    time.Duration
	Memory int64 // the resident set without pages of files, such as its own text, in bytes
}

// ticksPerSecond is the unit of processor times in /proc, see sysconf(3), _SC_CLK_TCK: 100 on all of Go's platforms.
const ticksPerSecond = 100

// Usage returns the resources that the program has used since its start. A program that has ended is an error, with its last
// messages.
func (p *Program) Usage() (ProgramUsage, error) {
	select {
	case <-p.process.Ended:
		return ProgramUsage{}, fmt.Errorf("%s has ended: %v: %s", p.process.name, p.process.cmd.ProcessState, p.Messages())
	default:
	}
	dir := fmt.Sprintf("/proc/%d/", p.process.cmd.Process.Pid)
	stat, err := os.ReadFile(dir + "stat")
	status, err2 := os.ReadFile(dir + "status")
	if err := errors.Join(err, err2); err != nil {
		return ProgramUsage{}, err
	}
	// The fields behind the name, which may have spaces: the 12th and 13th are the user's and the system's time.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	memory, err3 := anonymousMemory(string(status))
	return ProgramUsage{time.Duration(user+system) * time.Second / ticksPerSecond, memory}, errors.Join(err, err2, err3)
}

// anonymousMemory returns the field RssAnon of a process's status.
func anonymousMemory(status string) (int64, error) {
	_, text, found := strings.Cut(status, "\nRssAnon:")
	if !found {
		return 0, errors.New("the status of the process has no RssAnon")
	}
	text, _, _ = strings.Cut(text, " kB\n")
	kib, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return kib << 10, err
}
