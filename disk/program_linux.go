package disk

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// separate gives the program a process group, all of which is killed when its context
// ends: fsck starts others. The program itself ends with this process: a format must not
// continue when the next process starts one.
func separate(c *exec.Cmd) {
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
}
