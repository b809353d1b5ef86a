package mounttest

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// CountCalls runs the program to its end, which must be a success, and returns how many
// system calls of each name its threads made. It leaves out the calls that the Go runtime
// makes for itself, whose numbers vary: for memory, threads, timers, clocks and signals. It sets
// updatemaxprocs=0 in the program's GODEBUG, so that a Go program does not read the limits of its
// cgroup from time to time. A call without a name here is counted by its number.
//
// The difference between a run with n and one with 2n repetitions is the cost of n. The
// program is traced (ptrace(2)); where that is forbidden the test is skipped. No other
// child of this process may run meanwhile.
func CountCalls(t T, c *exec.Cmd) map[string]int {
	t.Helper()
	// Only the thread that started the program may trace it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	traced := &tracee{counts: map[uint64]int{}}
	c.Env = keepLimits(c.Environ())
	if _, err := traced.run(c); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
			SkipWithout(t, "ptrace", err)
		}
		t.Fatalf("count calls: %v", err)
	}
	counts := map[string]int{}
	for number, n := range traced.counts {
		if !runtimeCalls[number] {
			counts[callName(number)] += n
		}
	}
	return counts
}

// keepLimits returns an environment in which the Go runtime does not update GOMAXPROCS.
func keepLimits(env []string) []string {
	const name = "GODEBUG="
	settings := "updatemaxprocs=0"
	for _, variable := range env {
		if before, ok := strings.CutPrefix(variable, name); ok {
			settings = before + "," + settings
		}
	}
	return append(env, name+settings)
}

// runtimeCalls are the calls that the Go runtime makes for itself.
var runtimeCalls = map[uint64]bool{
	unix.SYS_FUTEX: true, unix.SYS_NANOSLEEP: true, unix.SYS_CLOCK_NANOSLEEP: true, unix.SYS_SCHED_YIELD: true,
	unix.SYS_EPOLL_PWAIT: true, unix.SYS_MMAP: true, unix.SYS_MUNMAP: true, unix.SYS_MADVISE: true, unix.SYS_MPROTECT: true,
	unix.SYS_RT_SIGACTION: true, unix.SYS_RT_SIGPROCMASK: true, unix.SYS_RT_SIGRETURN: true, unix.SYS_SIGALTSTACK: true,
	unix.SYS_TGKILL: true, unix.SYS_GETPID: true, unix.SYS_GETTID: true, unix.SYS_CLONE3: true, unix.SYS_SCHED_GETAFFINITY: true,
	unix.SYS_PRCTL: true, unix.SYS_EXIT_GROUP: true, unix.SYS_RSEQ: true, unix.SYS_SET_ROBUST_LIST: true,
	unix.SYS_CLOCK_GETTIME: true, // where the kernel has no vDSO
}

// readingCalls are names of calls that change nothing; [changing] has the others.
var readingCalls = map[uint64]string{
	unix.SYS_STATX: "statx", unix.SYS_OPENAT2: "openat2", unix.SYS_CLOSE: "close", unix.SYS_READ: "read",
	unix.SYS_READLINKAT: "readlinkat", unix.SYS_STATMOUNT: "statmount", unix.SYS_LISTMOUNT: "listmount",
	unix.SYS_PPOLL: "ppoll", unix.SYS_CLONE: "clone", unix.SYS_FCNTL: "fcntl", unix.SYS_GETDENTS64: "getdents64",
	unix.SYS_WRITE: "write", unix.SYS_FSYNC: "fsync", unix.SYS_FSTATFS: "fstatfs", unix.SYS_WAIT4: "wait4",
	unix.SYS_FSTAT: "fstat", unix.SYS_PREAD64: "pread64", unix.SYS_CLOSE_RANGE: "close_range",
}

func callName(number uint64) string {
	if name := changingCalls[number]; name != "" {
		return name
	}
	if name := readingCalls[number]; name != "" {
		return name
	}
	return fmt.Sprintf("call %d", number)
}
