package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// A helperRun is one run of a program for mounting, in a process group of its own.
type helperRun struct {
	cmd    *exec.Cmd
	req    Request
	said   *os.File // what it prints
	secret *os.File // what it must not have in its arguments, or nil
}

// mostOutput is how much a program may print.
const mostOutput = 64 << 10

func newHelperRun(helper, place string, req Request, o Options) (*helperRun, error) {
	option, content, err := handOver(req.FSType, req.Secrets)
	if err != nil {
		return nil, err
	}
	r := &helperRun{req: req, cmd: &exec.Cmd{
		Path: helper, Dir: "/",
		Env:         []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}}
	if r.said, err = memoryFile("said", make([]byte, mostOutput)); err != nil {
		return nil, err
	}
	r.cmd.Stdout, r.cmd.Stderr = r.said, r.said
	options := helperOptions(o)
	if content != "" {
		if r.secret, err = memoryFile("secret", []byte(content)); err != nil {
			r.close()
			return nil, err
		}
		r.cmd.ExtraFiles = []*os.File{r.secret}
		options = append(options, option+"/proc/self/fd/3")
	}
	// These programs take the operands first, and none of them "--".
	r.cmd.Args = []string{helper, req.Source, place}
	if len(options) > 0 {
		r.cmd.Args = append(r.cmd.Args, "-o", strings.Join(options, ","))
	}
	return r, nil
}

func (r *helperRun) close() {
	_ = r.said.Close()
	if r.secret != nil {
		_ = r.secret.Close()
	}
}

// memoryFile returns a file in memory, at its beginning, that cannot grow.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.WriteAt(content, 0); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// run waits for the program. If ctx ends before it does, its place is taken from
// it and its group is killed. The program dies with this process, too, which takes
// a thread that does not end before it.
func (r *helperRun) run(ctx context.Context, abandon func()) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := r.cmd.Start(); err != nil {
		return r.failed(err)
	}
	ended := make(chan bool, 1)
	go func() { ended <- waitUnreaped(r.cmd.Process.Pid) }()
	well := false
	select {
	case well = <-ended:
	case <-ctx.Done():
		r.killGroup()
		abandon()
		<-ended
	}
	// The daemon of a file system that is mounted lives on; what a program has left
	// that failed does not.
	if !well {
		r.killGroup()
	}
	return r.reap(ctx)
}

// waitUnreaped waits for the end of a child, and leaves it as it is: its number,
// and with it its group's, is not used again until it is reaped. It reports whether
// the child ended well.
func waitUnreaped(pid int) (well bool) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			const exited = 1 // CLD_EXITED
			return err == nil && info.Code == exited && childStatus(&info) == 0
		}
	}
}

// childStatus returns si_status, which comes after three numbers, aligned to a
// pointer, and the child's process and user IDs.
func childStatus(info *unix.Siginfo) int32 {
	const word = unsafe.Sizeof(uintptr(0))
	const pid = (3*4 + word - 1) / word * word
	return *(*int32)(unsafe.Add(unsafe.Pointer(info), pid+2*4))
}

func (r *helperRun) killGroup() { _ = unix.Kill(-r.cmd.Process.Pid, unix.SIGKILL) }

// reap returns what became of a program that has ended.
func (r *helperRun) reap(ctx context.Context) error {
	err := r.cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return r.failed(ctxend.Error(ctx))
	case err != nil:
		return r.failed(err)
	}
	return nil
}

func (r *helperRun) failed(err error) error {
	return &HelperError{Helper: r.cmd.Path, Output: r.output(r.req), Err: err}
}

// output returns what the program has printed. It shares the place in the file
// with us, which is where it has stopped.
func (r *helperRun) output(req Request) string {
	end, err := unix.Seek(int(r.said.Fd()), 0, unix.SEEK_CUR)
	if err != nil || end <= 0 {
		return ""
	}
	text := make([]byte, min(end, mostOutput))
	n, _ := r.said.ReadAt(text, 0)
	return printable(req.redact(string(text[:n])))
}
