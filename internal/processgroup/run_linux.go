package processgroup

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// Run starts a program in a process group of its own, and waits for its end. It sets SysProcAttr of cmd. If ctx
// ends earlier, Run kills the group, calls abandon unless it is nil, and waits for the end of the program: a
// program that the kernel does not end, since a file system does not answer, delays Run. If the program
// fails, Run kills the rest of its group; after a success the rest lives on.
//
// The error is that of [exec.Cmd.Start] or [exec.Cmd.Wait], or ctx's cause. The kernel kills the program when the
// thread that started it ends, so Run keeps its thread.
func Run(ctx context.Context, cmd *exec.Cmd, abandon func()) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan bool, 1)
	go func() { exited <- waitUnreaped(cmd.Process.Pid) }()
	succeeded := false
	select {
	case succeeded = <-exited:
	case <-ctx.Done():
		kill(cmd)
		if abandon != nil {
			abandon()
		}
		<-exited
	}
	if !succeeded {
		kill(cmd)
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	return err
}

// kill kills the process group of a program that is not reaped.
func kill(cmd *exec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }

// waitUnreaped waits for the exit of a child and leaves it unreaped, so that the kernel does
// not reuse its process ID and process group ID. It reports whether the exit status is 0.
func waitUnreaped(pid int) (succeeded bool) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			const exited = 1 // CLD_EXITED
			return err == nil && info.Code == exited && exitStatus(&info) == 0
		}
	}
}

// exitStatus returns si_status. It follows three numbers, aligned to a pointer, and the
// child's process and user IDs.
func exitStatus(info *unix.Siginfo) int32 {
	const word = unsafe.Sizeof(uintptr(0))
	const pid = (3*4 + word - 1) / word * word
	return *(*int32)(unsafe.Add(unsafe.Pointer(info), pid+2*4))
}
