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

// mayGrowMounted reports whether this thread has the capability that ext4 requires to grow while it is mounted.
func mayGrowMounted() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) != nil || data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}
