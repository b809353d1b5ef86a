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
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Sandbox continues a program in a user and mount namespace of its own, where an ordinary user may mount, and from
// which no mount reaches another process. It is for programs that show or try something: call it first in main.
//
//	dir, err := mounttest.Sandbox()
//	if err != nil {
//		log.Fatal(err)
//	}
//
// Sandbox starts a copy of the program there, with the same arguments, environment and standard files, passes SIGHUP,
// SIGINT, SIGQUIT and SIGTERM on to it unless they are ignored, and exits with its status, or with 128 and the number of
// the signal that ended it. In the copy Sandbox returns, each time with the same directory. The copy is root in its
// namespace, and ends with this process; its mounts end with it.
//
// Dir is a directory for the program's files, in memory: an empty tmpfs, which ends with the copy. It is in
// [os.TempDir], and its path has no symbolic links. Only SIGKILL leaves an empty directory there.
//
// After an error nothing has changed: the kernel permits no such namespace, or there is no directory for temporary
// files. The program may go on without, such as with a [Fake].
func Sandbox() (dir string, err error) { return sandbox() }

var sandbox = sync.OnceValues(func() (dir string, err error) {
	// The copy dies with the thread that created it, so the thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	outside, err := os.Readlink(ownMounts)
	if err != nil {
		return "", err
	}
	if dir, refusal, ok := takeSandbox(outside); ok {
		return dir, enterSandbox(dir, refusal)
	}
	status, err := runSandbox(outside)
	if err == nil {
		os.Exit(status)
	}
	return "", err
})

const (
	// sandboxVar marks the copy of a program: it holds the mount namespace of its parent, and the directory.
	sandboxVar = "MOUNTTEST_SANDBOX"
	ownMounts  = "/proc/self/ns/mnt"
	// refusalFile is the descriptor of the pipe to which the copy writes why it may not mount.
	refusalFile = 3
)

// takeSandbox returns the directory and the pipe of the copy, in its namespace inside. It is not ok in any other process.
func takeSandbox(inside string) (dir string, refusal *os.File, ok bool) {
	outside, dir, marked := strings.Cut(os.Getenv(sandboxVar), " ")
	_ = os.Unsetenv(sandboxVar) // programs that the copy starts are no copies
	var pipe unix.Stat_t
	err := unix.Fstat(refusalFile, &pipe)
	if !marked || outside == inside || err != nil || pipe.Mode&unix.S_IFMT != unix.S_IFIFO {
		return "", nil, false
	}
	return dir, os.NewFile(refusalFile, "pipe"), true
}

// enterSandbox is the first step of the copy. It exits if mounting is not allowed: the parent returns the reason.
func enterSandbox(dir string, refusal *os.File) error {
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
func runSandbox(outside string) (status int, err error) {
	signals := make(chan os.Signal, 4)
	defer func() { ossignal.Stop(signals); close(signals) }()
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if !ossignal.Ignored(s) {
			ossignal.Notify(signals, s)
		}
	}
	made, err := os.MkdirTemp("", "m") // short: programs have sockets
	if err != nil {
		return 0, fmt.Errorf("directory for a sandbox: %w", err)
	}
	defer func() { _ = os.Remove(made) }()
	dir, err := filepath.Abs(made)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return 0, fmt.Errorf("directory for a sandbox: %w", err)
	}
	copied := Command("/proc/self/exe", os.Args[1:]...)
	copied.Args[0] = os.Args[0]
	copied.Env = append(os.Environ(), sandboxVar+"="+outside+" "+dir)
	copied.Stdin, copied.Stdout, copied.Stderr = os.Stdin, os.Stdout, os.Stderr
	refusal, err := runSignalled(copied, signals)
	switch exit := (*exec.ExitError)(nil); {
	case refusal != "":
		return 0, fmt.Errorf("%w: %s", errNoSandbox, refusal)
	case err != nil && !errors.As(err, &exit):
		return 0, fmt.Errorf("%w: %w", errNoSandbox, err)
	}
	if waited := copied.ProcessState.Sys().(syscall.WaitStatus); waited.Signaled() {
		return 128 + int(waited.Signal()), nil
	}
	return copied.ProcessState.ExitCode(), nil
}

var errNoSandbox = errors.New("no user and mount namespace to be had")

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
