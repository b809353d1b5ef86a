package kubenode

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Driver is a driver in a process of its own: the test binary as another program.
type Driver struct {
	Name     string
	Endpoint string   // path of the socket
	Args     []string // of the program
	Env      []string // in addition to that of the test

	process *exec.Cmd
}

// Start starts the process. It ends with the test at the latest.
func (d *Driver) Start(t *testing.T) {
	t.Helper()
	d.process = exec.Command("/proc/self/exe", d.Args...)
	d.process.Env = append(os.Environ(), d.Env...)
	d.process.Stdout, d.process.Stderr = os.Stdout, os.Stderr
	require.NoError(t, d.process.Start())
	t.Cleanup(d.Kill)
}

// Kill kills the process, which leaves its sockets.
func (d *Driver) Kill() {
	if d.process == nil {
		return
	}
	_ = d.process.Process.Kill()
	_ = d.process.Wait()
	d.process = nil
}
