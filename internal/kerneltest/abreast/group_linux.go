package abreast

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group makes a command the leader of a process group, which ends with the command.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// endGroup ends the group with SIGTERM, and with SIGKILL once endLimit is over, and returns
// when no process of the group is left.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process == nil {
		return
	}
	end := unix.SIGTERM
	for deadline := time.Now().Add(endLimit); ; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			end = unix.SIGKILL
		}
		_ = unix.Kill(-cmd.Process.Pid, end)
		if left := reap(-cmd.Process.Pid); !left {
			return
		}
	}
}

// adopt makes orphaned descendants children of this process.
func adopt() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// reap waits for the ended children in a group, and reports whether others are left.
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
