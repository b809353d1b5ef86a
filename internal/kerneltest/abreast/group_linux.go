package abreast

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// group makes a command the first of a process group, which ends with it.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// endGroup returns when nothing is left of the group. It was told to end, unless
// the command had ended by itself.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process == nil {
		return
	}
	end := syscall.SIGTERM
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			end = syscall.SIGKILL
		}
		if err := syscall.Kill(-cmd.Process.Pid, end); errors.Is(err, syscall.ESRCH) {
			return
		}
	}
}
