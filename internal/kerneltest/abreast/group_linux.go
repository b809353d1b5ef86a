package abreast

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	end := unix.SIGTERM
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			end = unix.SIGKILL
		}
		_ = unix.Kill(-cmd.Process.Pid, end)
		if left := reap(-cmd.Process.Pid); !left {
			return
		}
	}
}

// adopt makes the children of what ends this process' own.
func adopt() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// reap waits for those of our children in a group that have ended, and returns
// whether there are others.
func reap(group int) (left bool) {
	for {
		pid, err := unix.Wait4(group, nil, unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		if pid == 0 {
			return true
		}
	}
}
