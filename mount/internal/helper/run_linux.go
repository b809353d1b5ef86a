package helper

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// A Run is one execution of a helper, in a process group of its own.
type Run struct {
	cmd     *exec.Cmd
	secrets []options.Secret // to redact from the output
	output  *os.File
	secret  *os.File // the secret file, or nil
}

// NewRun prepares the run of a helper that mounts a spec at a place. The caller closes it.
func NewRun(helper, place string, s *spec.Spec) (*Run, error) {
	credentials, rest, err := readCredentials(s.FSType, s.Secrets)
	if err != nil {
		return nil, err
	}
	file, err := newSecretFile(s.FSType, rest)
	if err != nil {
		return nil, err
	}
	r := &Run{
		secrets: append(slices.Clip(rest), splitCredentials(credentials)...),
		cmd: &exec.Cmd{
			Path: helper, Dir: "/",
			Env:         []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
			SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		},
	}
	if r.output, err = newMemoryFile("said", make([]byte, maxOutput)); err != nil {
		return nil, err
	}
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	list := optionsFor(s.Options)
	if content := credentials + file.content; content != "" {
		if r.secret, err = newMemoryFile("secret", []byte(content)); err != nil {
			r.Close()
			return nil, err
		}
		r.cmd.ExtraFiles = []*os.File{r.secret}
		list = append(list, file.option+"/proc/self/fd/3")
	}
	r.cmd.Args = argumentsFor(helper, place, s, list)
	return r, nil
}

// Close closes the files of the run.
func (r *Run) Close() {
	_ = r.output.Close()
	if r.secret != nil {
		_ = r.secret.Close()
	}
}

// Execute starts the helper and waits for its end. If ctx ends earlier, it kills the process
// group and calls abandon, which must make the place useless for a mount that is under way.
// Pdeathsig kills the helper with the thread that has started it, so Execute keeps its thread.
func (r *Run) Execute(ctx context.Context, abandon func()) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := r.cmd.Start(); err != nil {
		return r.Fail(err)
	}
	exited := make(chan bool, 1)
	go func() { exited <- waitUnreaped(r.cmd.Process.Pid) }()
	succeeded := false
	select {
	case succeeded = <-exited:
	case <-ctx.Done():
		r.killGroup()
		abandon()
		<-exited
	}
	if !succeeded {
		r.killGroup() // the daemon of a mounted file system lives on
	}
	return r.reap(ctx)
}

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

// killGroup kills the process group of the helper.
func (r *Run) killGroup() { _ = unix.Kill(-r.cmd.Process.Pid, unix.SIGKILL) }

// reap releases the process of a helper that has exited. It returns an error if ctx has ended, or
// if the helper failed.
func (r *Run) reap(ctx context.Context) error {
	err := r.cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return r.Fail(ctxend.Error(ctx))
	case err != nil:
		return r.Fail(err)
	}
	return nil
}

// Fail returns an [*Error] of the run with a cause.
func (r *Run) Fail(cause error) error {
	return &Error{Helper: r.cmd.Path, Output: r.readOutput(), Err: cause}
}
