package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errNoTracing = errors.New("system calls are not counted: ptrace(2) is not allowed")

// mark is the argument of a system call that fails, and that only [countCalls] makes.
const mark = 0x7fc0_ffee

// countCalls returns the number of system calls that work makes, on all threads of this
// process and in the programs that it runs, without the calls that the Go runtime makes for
// itself. A child process traces this one meanwhile, so work is slow.
func countCalls(work func() error) (calls int, err error) {
	tracer, err := program("trace")
	if err != nil {
		return 0, err
	}
	out, err := tracer.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := tracer.Start(); err != nil {
		return 0, err
	}
	// Some kernels forbid a child to trace its parent without this call; others lack it.
	_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(tracer.Process.Pid), 0, 0, 0)
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != tracing {
		return 0, fmt.Errorf("%w: %q", errNoTracing, errors.Join(tracer.Wait(), lines.Err()))
	}
	_, _ = unix.Getpgid(mark)
	err = work()
	_, _ = unix.Getpgid(mark)
	if !lines.Scan() {
		return 0, fmt.Errorf("count calls: %w", errors.Join(err, lines.Err(), tracer.Wait()))
	}
	calls, wrong := strconv.Atoi(lines.Text())
	return calls, errors.Join(err, wrong, tracer.Wait())
}

// program returns a command that runs this program in one of its roles.
func program(role string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), roleVar+"="+role)
	c.Stderr = os.Stderr
	return c, nil
}

// tracing is the line that a tracer writes when it has seized all threads. Then it writes the
// number of calls, and exits, by which the kernel releases the threads.
const tracing = "tracing"

// trace traces the parent process from one [mark] to the next.
func trace() error {
	runtime.LockOSThread() // the tracer is one thread
	t := &tracer{pid: os.Getppid(), own: map[int]bool{}}
	if err := t.seizeAll(); err != nil {
		return err
	}
	fmt.Println(tracing)
	for t.marks < 2 {
		if err := t.next(); err != nil {
			return err
		}
	}
	fmt.Println(t.calls)
	return nil
}

type tracer struct {
	pid          int
	own          map[int]bool // by thread: whether it belongs to the parent process
	marks, calls int
}

const traceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK

// seizeAll seizes all threads. Threads that they start meanwhile are seized with them.
func (t *tracer) seizeAll() error {
	for {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", t.pid))
		if err != nil {
			return err
		}
		more := false
		for _, entry := range threads {
			tid, err := strconv.Atoi(entry.Name())
			if err != nil {
				return err
			}
			if _, known := t.own[tid]; known {
				continue
			}
			more = true
			err = ptrace(unix.PTRACE_SEIZE, tid, 0, traceOptions)
			if err == nil {
				err = ptrace(unix.PTRACE_INTERRUPT, tid, 0, 0)
			}
			seizedBefore := errors.Is(err, unix.EPERM) && len(t.own) > 0
			if err != nil && !seizedBefore && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("seize thread %d: %w", tid, err)
			}
			t.own[tid] = true
		}
		if !more {
			return nil
		}
	}
}

// next waits for a stop of a thread, and resumes the thread.
func (t *tracer) next() error {
	var status unix.WaitStatus
	tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
	if errors.Is(err, unix.EINTR) || err == nil && !status.Stopped() {
		return nil
	}
	if err != nil {
		return err
	}
	var deliver uintptr
	switch signal := status.StopSignal(); {
	case signal == unix.SIGTRAP|0x80:
		err = t.inCall(tid)
	case status>>16 == 0: // not an event of ptrace(2)
		deliver = uintptr(signal)
	}
	if err == nil {
		err = ptrace(unix.PTRACE_SYSCALL, tid, 0, deliver)
	}
	if errors.Is(err, unix.ESRCH) { // the thread has been killed
		return nil
	}
	return err
}

// A callInfo is the beginning of struct ptrace_syscall_info at the entry to a call.
type callInfo struct {
	op       uint8
	_        [3]byte
	_        uint32    // architecture
	_        [2]uint64 // instruction and stack pointer
	number   uint64
	argument uint64 // the first
}

func (t *tracer) inCall(tid int) error {
	var info callInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return errno
	}
	if info.op != unix.PTRACE_SYSCALL_INFO_ENTRY {
		return nil
	}
	if info.number == unix.SYS_GETPGID && info.argument == mark {
		t.marks++
		return nil
	}
	newThread := info.number == unix.SYS_CLONE && info.argument&unix.CLONE_THREAD != 0
	if t.marks == 1 && !((newThread || ofRuntime[info.number]) && t.isOwn(tid)) {
		t.calls++
	}
	return nil
}

// isOwn reports whether a thread belongs to the parent process.
func (t *tracer) isOwn(tid int) bool {
	own, known := t.own[tid]
	if !known {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
		own = strings.Contains(string(status), fmt.Sprintf("\nTgid:\t%d\n", t.pid))
		t.own[tid] = own
	}
	return own
}

// ofRuntime are the system calls that the Go runtime makes for itself.
var ofRuntime = map[uint64]bool{
	unix.SYS_FUTEX: true, unix.SYS_NANOSLEEP: true, unix.SYS_SCHED_YIELD: true, unix.SYS_EPOLL_PWAIT: true,
	unix.SYS_MMAP: true, unix.SYS_MUNMAP: true, unix.SYS_MADVISE: true, unix.SYS_MPROTECT: true,
	unix.SYS_RT_SIGACTION: true, unix.SYS_RT_SIGPROCMASK: true, unix.SYS_RT_SIGRETURN: true, unix.SYS_SIGALTSTACK: true,
	unix.SYS_TGKILL: true, unix.SYS_GETPID: true, unix.SYS_GETTID: true, unix.SYS_CLONE3: true,
	unix.SYS_RESTART_SYSCALL: true, unix.SYS_SET_ROBUST_LIST: true, unix.SYS_RSEQ: true,
	unix.SYS_EXIT: true, unix.SYS_SCHED_GETAFFINITY: true, unix.SYS_PRCTL: true,
}

func ptrace(request, tid int, address, data uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), address, data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
