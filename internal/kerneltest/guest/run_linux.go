package guest

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// run runs the test to its end, and reaps orphans meanwhile, as the first process must.
func run(task Task) (code int, err error) {
	pid, err := syscall.ForkExec(program, append([]string{program}, task.Args...), &syscall.ProcAttr{
		Dir:   task.Dir,
		Env:   task.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return Failed, fmt.Errorf("start the test: %w", err)
	}
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return Failed, fmt.Errorf("wait for the test: %w", err)
		case ended == pid && status.Signaled():
			return 128 + int(status.Signal()), fmt.Errorf("the test was killed: %v", status.Signal())
		case ended == pid:
			return status.ExitStatus(), nil
		}
	}
}
