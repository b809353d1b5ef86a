package mounttest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// sandboxVar marks the copy of a program in its sandbox: it holds the process ID of its parent, and the directory.
const sandboxVar = "MOUNTTEST_SANDBOX_OF"

// Sandbox continues a program in a user and mount namespace of its own, where an ordinary user may mount, and from
// which no mount reaches another process. It is for programs that show or try something: call it first in main.
//
//	dir, err := mounttest.Sandbox()
//	if err != nil {
//		log.Fatal(err)
//	}
//
// Sandbox starts a copy of the program there, with the same arguments, environment and standard files, passes SIGINT
// and SIGTERM on to it, and exits with its status, or with 128 and the number of the signal that ended it. In the copy
// Sandbox returns. The copy is root in its namespace, and ends with this process; its mounts end with it.
//
// Dir is an empty directory for the program's files, in memory: a tmpfs, which ends with the copy. Its path has no
// symbolic links, and is short enough for the names of sockets below it if that of [os.TempDir] is.
//
// An error says that the kernel permits no such namespace. Nothing has changed then, and the program may go on without,
// such as with a [Fake].
func Sandbox() (dir string, err error) {
	// The copy dies with the thread that created it, so the thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if parent, dir, ok := strings.Cut(os.Getenv(sandboxVar), ":"); ok && parent == strconv.Itoa(os.Getppid()) {
		return dir, enterSandbox(dir)
	}
	status, err := runSandbox()
	if err == nil {
		os.Exit(status)
	}
	return "", fmt.Errorf("no user and mount namespace to be had: %w", err)
}

// refusalFile is the descriptor to which the copy writes why it may not mount.
const refusalFile = 3

// enterSandbox is the first step of the copy. It exits if mounting is not allowed: the parent returns the reason.
func enterSandbox(dir string) error {
	refusal := os.NewFile(refusalFile, "pipe")
	err := Privatize()
	if err == nil {
		err = os.NewSyscallError("mount", unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"))
	}
	if err != nil {
		_, _ = io.WriteString(refusal, err.Error())
		os.Exit(1)
	}
	return refusal.Close()
}

// runSandbox runs the copy, and returns its exit status. The error says that it did not begin.
func runSandbox() (status int, err error) {
	dir, err := os.MkdirTemp("", "m") // short: programs have sockets
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(dir) }()
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return 0, err
	}
	copied := Command("/proc/self/exe", os.Args[1:]...)
	copied.Args[0] = os.Args[0]
	copied.Env = append(os.Environ(), sandboxVar+"="+strconv.Itoa(os.Getpid())+":"+dir)
	copied.Stdin, copied.Stdout, copied.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	ossignal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer func() { ossignal.Stop(signals); close(signals) }()
	refusal, err := runSignalled(copied, signals)
	switch exit := (*exec.ExitError)(nil); {
	case refusal != "":
		return 0, errors.New(refusal)
	case err != nil && !errors.As(err, &exit):
		return 0, err
	}
	if waited := copied.ProcessState.Sys().(syscall.WaitStatus); waited.Signaled() {
		return 128 + int(waited.Signal()), nil
	}
	return copied.ProcessState.ExitCode(), nil
}

// runSignalled runs the copy and sends it the signals. It returns what the copy writes to refusalFile, and the error of
// its start or its end.
func runSignalled(copied *exec.Cmd, signals <-chan os.Signal) (refusal string, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	copied.ExtraFiles = []*os.File{w}
	if err := errors.Join(copied.Start(), w.Close()); err != nil {
		return "", err
	}
	go func() {
		for s := range signals {
			_ = copied.Process.Signal(s)
		}
	}()
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, copied.Wait())
}
