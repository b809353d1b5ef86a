package local

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// separate gives the command a process group, all of which ends with its context: fsck
// starts others. The command itself ends with this process, too: what formats a device
// must not go on when the next process begins to.
func separate(c *exec.Cmd) {
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
}
