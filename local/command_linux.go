package local

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// separate gives the command a process group, all of which ends with it: fsck starts
// others.
func separate(c *exec.Cmd) {
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
}
